"""OpenAI chat form, built turn by turn: what every format but Anthropic's becomes.

Results stand directly behind the assistant message that made the call, which is what the wire form demands. A source
that logs a user's message between a call and its result is put in that order; the message comes after the results.
A result goes to the nearest preceding open call of its id, because ids repeat along real runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drsr.offline.ingest.formats import wire_form
from drsr.offline.ingest.formats.json_values import dumps
from drsr.offline.ingest.formats.reader import malformed
from drsr.offline.ingest.formats.synthetic_outputs import is_synthetic
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import Unreadable

Content = str | list[Json] | None
_SPEAKERS = ("system", "developer", "user")
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_PART_TYPES = _TEXT_TYPES | {
    *("image", "image_url", "input_image", "audio", "input_audio", "video", "video_url"),
    *("file", "input_file", "document", "refusal"),
}


class Chat:
    """A conversation under construction."""

    def __init__(self, *, cut: bool = False) -> None:
        """`cut`: an older part of the history was taken away, so results whose call went with it are left out."""
        self._cut = cut
        self._turns: list[Json | _Calling] = []
        self._open: dict[_Calling, None] = {}  # those that wait for results, in order
        self._callers: dict[str, list[_Calling]] = {}  # the same by the ids of their open calls, in order
        self._synthetic = 0

    def keep(self, message: Json) -> bool:
        """Take a message unchanged if it is already in wire form; otherwise return False."""
        kind = wire_form.kind_of(message)
        if kind == "text":
            self._turns.append(message)
        elif kind == "calls":
            self._called(message, message["tool_calls"])
        elif kind == "result":
            turn = self._waiting(message["tool_call_id"])
            if turn is None:
                return False
            self._close(turn, message["tool_call_id"])
            turn.results.append(message)
        return kind is not None

    def say(self, role: str, content: Any, *, demo: bool = False, name: str | None = None) -> None:
        """A message of the system, the developer or the user. One without content is left out."""
        if role not in _SPEAKERS:
            known = f"{', '.join(wire_form.SPEAKERS)} or tool"
            raise Unreadable("malformed", f"a message's role should be {known} and is {role[:60]!r}")
        said = read_content(content, role)
        if said is not None:
            message: Json = {"role": role, "content": said}
            if name and isinstance(name, str):
                message["name"] = name
            self._turns.append(_marked(message, demo))

    def answer(
        self,
        content: Any,
        calls: Iterable[Any] = (),
        *,
        reasoning: str | None = None,
        demo: bool = False,
        decided: bool = True,
    ) -> None:
        """An assistant's message. One that says and calls nothing (aborted, say) is left out. `decided`: a model said
        it, and not the framework in its place."""
        said = content if type(content) is str else read_content(content, "assistant")
        message: Json = {"role": "assistant", "content": said}
        if not decided or is_synthetic(said):
            message["is_decision"] = False
        if reasoning:
            message["reasoning_content"] = reasoning
        made = [self._with_id(read_call(call)) for call in calls]
        if made:
            message["tool_calls"] = made
            self._called(_marked(message, demo), made)
        elif reasoning or said:
            self._turns.append(_marked(message, demo))

    def result(self, call_id: Any, content: Any, *, demo: bool = False, name: str | None = None) -> None:
        """A tool's result. Without an id it answers the oldest open call of the latest message that has one."""
        turn = self._waiting(None if call_id is None else str(call_id))
        if turn is None and self._cut:
            return
        if turn is None:
            raise Unreadable("dangling_result", f"a result for the call {call_id!r}, which no message before it makes")
        answered = next(iter(turn.open)) if call_id is None else str(call_id)
        self._close(turn, answered)
        said = content
        if type(content) is not str:
            said = read_content(dumps(content) if _is_plain_object(content) else content, "tool")
        message: Json = {"role": "tool", "tool_call_id": answered, "content": "" if said is None else said}
        if name and isinstance(name, str):
            message["name"] = name
        turn.results.append(_marked(message, demo))

    def extend_answer(self, content: Any, calls: Iterable[Any] = ()) -> None:
        """More of the latest message that made calls, for sources that log one message in pieces."""
        turn = next(turn for turn in reversed(self._turns) if isinstance(turn, _Calling))
        turn.message["content"] = joined(turn.message["content"], read_content(content, "assistant"))
        made = [self._with_id(read_call(call)) for call in calls]
        turn.message["tool_calls"].extend(made)
        self._await(turn, made)

    def only_history(self) -> None:
        """Mark everything so far as history: it was decided in an earlier stretch, after another request."""
        for message in self.messages():
            if message["role"] == "assistant":
                message["is_decision"] = False

    @property
    def waits(self) -> bool:
        """Return whether the latest turn is an assistant's with a call that has no result yet."""
        last = self._turns[-1] if self._turns else None
        return isinstance(last, _Calling) and bool(last.open)

    def waits_for(self, call_id: str) -> bool:
        """Return whether a call of this id has no result yet."""
        return self._waiting(call_id) is not None

    def messages(self) -> list[Json]:
        """Return the conversation in wire form."""
        made: list[Json] = []
        for turn in self._turns:
            if isinstance(turn, _Calling):
                made.append(turn.message)
                made.extend(turn.results)
            else:
                made.append(turn)
        return made

    def _called(self, message: Json, calls: list[Json]) -> None:
        turn = _Calling(message)
        self._turns.append(turn)
        self._await(turn, calls)

    def _await(self, turn: _Calling, calls: list[Json]) -> None:
        """Open a turn's calls. A turn that is open already keeps its place; `turn` is the latest that makes calls."""
        for call in calls:
            call_id = call["id"]
            turn.open[call_id] = turn.open.get(call_id, 0) + 1
            self._callers.setdefault(call_id, []).append(turn)
            self._open.setdefault(turn)

    def _waiting(self, call_id: str | None) -> _Calling | None:
        if call_id is None:
            return next(reversed(self._open), None)
        callers = self._callers.get(call_id)
        return callers[-1] if callers else None

    def _close(self, turn: _Calling, call_id: str) -> None:
        """`turn` is the latest with this call open, as `_waiting` finds it."""
        turn.open[call_id] -= 1
        if not turn.open[call_id]:
            del turn.open[call_id]
        self._callers[call_id].pop()
        if not turn.open:
            del self._open[turn]

    def _with_id(self, call: Json) -> Json:
        if call["id"] is None:
            self._synthetic += 1
            call["id"] = f"call_{self._synthetic:04d}"
        return call


class _Calling:
    """An assistant's message that makes calls, with the results that came so far."""

    __slots__ = ("message", "open", "results")

    def __init__(self, message: Json) -> None:
        self.message = message
        self.open: dict[str, int] = {}  # how often each id waits for a result, in the order of the calls
        self.results: list[Json] = []


def _marked(message: Json, demo: bool) -> Json:
    if demo:
        message["is_demo"] = True
    return message


def tool_call(name: str, arguments: Any, call_id: str | None = None) -> Json:
    """Return a call in wire form; without an id the conversation gives it one."""
    if not isinstance(name, str):
        raise malformed("a tool call's name", "a string", name)
    if not name:
        raise Unreadable("malformed", "a tool call has no name")
    if not isinstance(arguments, str):
        if not isinstance(arguments, dict | list | None):
            raise malformed("a tool call's arguments", "an object or a string", arguments)
        arguments = "{}" if arguments is None else dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read_call(raw: Any) -> Json:
    """Return a call in any of the spellings in use: OpenAI's, one whose `function` is a name, or a flat one."""
    if not isinstance(raw, dict):
        raise malformed("a tool call", "an object", raw)
    function = raw.get("function")
    call_id = raw.get("id") or raw.get("call_id")
    call_id = None if call_id is None else str(call_id)
    if isinstance(function, dict):
        is_wire = wire_form.is_call(raw)
        return raw if is_wire else tool_call(function.get("name", ""), function.get("arguments"), call_id)
    if isinstance(raw.get("custom"), dict):
        custom = raw["custom"]
        return tool_call(custom.get("name", ""), {"input": custom.get("input")}, call_id)
    name = function if isinstance(function, str) else raw.get("name")
    arguments = next((raw[key] for key in ("arguments", "args", "input") if key in raw), None)
    return tool_call(name, arguments, call_id)  # type: ignore[arg-type]  # checked there


def read_content(content: Any, role: str) -> Content:
    """Return content in wire form: text, or a list if there are several parts or a part is not text."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise malformed(f"the content of a {role} message", "a string or a list", content)
    parts = [_part(part, role) for part in content]
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or None


def text_of(content: Any) -> str:
    """Return the text of any content, its parts joined by newlines; "" where there is none."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (part if isinstance(part, str) else part.get("text") for part in content if isinstance(part, str | dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def joined(first: Content, second: Content) -> Content:
    """Two contents as one."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _part(part: Any, role: str) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise malformed(f"a content part of a {role} message", "an object", part)
    kind = part.get("type", "text")
    if kind in _TEXT_TYPES if isinstance(kind, str) else False:
        if not isinstance(part.get("text"), str):
            raise malformed(f"the text of a content part of a {role} message", "a string", part.get("text"))
        return {"type": "text", "text": part["text"]}
    if not isinstance(kind, str):
        raise malformed(f"the type of a content part of a {role} message", "a string", kind)
    return part


def _is_plain_object(content: Any) -> bool:
    """A structured tool result, as against content parts: it is written out as JSON text."""
    if isinstance(content, dict):
        return not _is_known_part(content)
    return isinstance(content, list) and any(isinstance(part, dict) and not _is_known_part(part) for part in content)


def _is_known_part(part: Json) -> bool:
    kind = part.get("type")
    if isinstance(kind, str):
        return kind in _PART_TYPES
    return part.keys() == {"text"} and isinstance(part["text"], str)
