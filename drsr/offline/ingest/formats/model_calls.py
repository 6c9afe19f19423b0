"""Logs of single model calls, put together into runs.

Each call repeats the history so far, so the call that sent the longest history holds the run, and its answer is the
last thing said. Calls of one group (a trace, a conversation) that begin differently (sub-agents) are runs of their own.
A history that is no beginning of the longest one, as after a compaction, belongs to a stretch of its own: no call is
dropped that says something else. Across groups a call is part of a longer one only where that repeats its answer too:
then both are the same conversation, and it keeps the name of its first call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from drsr.offline.ingest.formats.anthropic_messages import request_of
from drsr.offline.ingest.formats.chat_form import read_call, text_of
from drsr.offline.ingest.formats.openai_chat import conversation, is_anthropic
from drsr.offline.ingest.formats.reader import Found, Run, as_list, dig
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import Unreadable


class Exchange(NamedTuple):
    """The request and the answer of one model call."""

    sent: list[Json]
    received: list[Json]
    tools: list[Json]
    conversation: str | None
    """The conversation that the call says it belongs to."""

    @property
    def opening(self) -> bytes:
        """Return a digest of how the conversation begins, which distinguishes it from others in the same group."""
        first = next((message for message in self.sent if message.get("role") == "user"), {})
        text = "\0".join([text_of(self.sent[0].get("content")), text_of(first.get("content"))])
        return hashlib.sha256(text.encode(errors="replace")).digest()

    @property
    def said(self) -> list[bytes]:
        """A digest of the history up to each message sent, and last of all with the answer: who says what and calls
        what. Reasoning is left out of later requests by some, so it does not count."""
        history = hashlib.sha256()
        digests = []
        for message in [*self.sent, *self.received[:1]]:
            what = (message.get("role"), text_of(message.get("content")), _calls(message), _blocks(message))
            history.update(repr(what).encode(errors="replace") + b"\0")
            digests.append(history.digest())
        return digests if self.received else [*digests, b""]


@dataclass(slots=True, eq=False)
class _Stretch:
    """The longest history so far among those that grew out of one another."""

    exchange: Exchange
    group: str
    task: str
    start: str
    place: str
    said: list[bytes]
    """By message sent, a digest of the history up to it."""
    answered: bytes
    """The same with the answer; empty where none was recorded."""
    origin: tuple[int, str] = field(init=False)
    """Number of messages that its earliest known call sent, and the group of that call."""

    def __post_init__(self) -> None:
        self.origin = (len(self.said), self.group)

    @property
    def rank(self) -> tuple[int, bool, str]:
        """Of two calls with the same history the answered one counts, and of those the later one."""
        return len(self.said), bool(self.answered), self.start

    def grew_from(self, other: _Stretch) -> bool:
        return len(self.said) >= len(other.said) and self.said[len(other.said) - 1] == other.said[-1]


class ModelCalls:
    """The calls of one file. `are_unique`: a group's name is found nowhere else, so that it can name a run."""

    def __init__(self, *, are_unique: bool = True) -> None:
        self._are_unique = are_unique
        self._conversations: dict[tuple[str, bytes], list[_Stretch]] = {}
        self._by_answer: dict[bytes, _Stretch] = {}
        self._by_history: dict[bytes, _Stretch] = {}  # of every history that a held one begins with

    def __bool__(self) -> bool:
        return bool(self._conversations)

    def add(self, exchange: Exchange, group: str, *, start: str, place: str, task: str | None = None) -> None:
        """One call. `start` orders the calls of a group; `task` is what several groups have in common."""
        *said, answered = exchange.said
        new = _Stretch(exchange, group, task or group, start, place, said, answered)
        stretches = self._conversations.setdefault(self._key(new), [])
        for held in stretches:
            if held.grew_from(new) and held.rank > new.rank:
                held.origin = min(held.origin, new.origin)
                return
        for held in [held for held in stretches if new.grew_from(held)]:
            self._drop(held, new)
        self._hold(new)

    def runs(self) -> Iterator[Found]:
        """Yield the runs that the calls make, in the order of their first calls."""
        numbers: dict[str, int] = {}
        for stretches in filter(None, self._conversations.values()):
            ordered = sorted(stretches, key=lambda stretch: (stretch.start, stretch.said))
            group = ordered[0].origin[1]
            number = numbers[group] = numbers.get(group, 0) + 1
            name = group if number == 1 else f"{group}/{number}"
            for place, chosen in enumerate(ordered):
                try:
                    yield self._run(chosen, name if place == 0 else f"{name}/stretch-{place + 1}")
                except Unreadable as problem:
                    yield Quarantined(f"{chosen.place} trace {chosen.group}", problem.reason, problem.detail)

    def _hold(self, new: _Stretch) -> None:
        """Keep a stretch, unless it is part of one from another group; what it is a longer form of goes."""
        longer = self._by_history.get(new.answered) if new.answered else None
        if longer is not None:
            longer.origin = min(longer.origin, new.origin)
            return
        for digest in new.said:
            if (shorter := self._by_answer.get(digest)) is not None:
                self._drop(shorter, new)
        self._conversations[self._key(new)].append(new)
        if new.answered:
            self._by_answer[new.answered] = new
        self._by_history.update(dict.fromkeys(new.said, new))

    def _drop(self, shorter: _Stretch, longer: _Stretch) -> None:
        longer.origin = min(longer.origin, shorter.origin)
        self._conversations[self._key(shorter)].remove(shorter)
        if self._by_answer.get(shorter.answered) is shorter:
            del self._by_answer[shorter.answered]
        for digest in shorter.said:
            if self._by_history.get(digest) is shorter:
                del self._by_history[digest]

    def _run(self, chosen: _Stretch, name: str) -> Run:
        messages = [*chosen.exchange.sent, *chosen.exchange.received]
        return Run(
            place=f"{chosen.place} trace {chosen.group}",
            protocol="anthropic" if is_anthropic(messages) else "openai",
            request=_request(messages, chosen.exchange.tools),
            run_id=name if self._are_unique else None,
            local_id=None if self._are_unique else name,
            task=chosen.task if self._are_unique else None,
            only_session=True,
        )

    @staticmethod
    def _key(stretch: _Stretch) -> tuple[str, bytes]:
        return stretch.group, stretch.exchange.opening


def _calls(message: Json) -> list[tuple[Any, Any]]:
    """Name and arguments of the calls, the same for every spelling of them."""
    calls = message.get("tool_calls")
    made = []
    for call in calls if isinstance(calls, list) else ():
        function = dig(call, "function")
        inner = function if isinstance(function, dict) else call
        found = (dig(inner, key) for key in ("arguments", "args", "input"))
        arguments = next((value for value in found if value is not None), None)
        made.append((dig(inner, "name") or function, _value(arguments)))
    return made


def _value(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _blocks(message: Json) -> list[tuple[Any, ...]]:
    """Return what an Anthropic message calls and answers."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [
        (block.get("name"), block.get("input"), text_of(block.get("content")))
        for block in blocks
        if block.get("type") in ("tool_use", "tool_result")
    ]


def _request(messages: list[Json], tools: list[Json]) -> Json:
    """A request body. An answer in OpenAI's form to a request in Anthropic's, as gateways log it, becomes blocks."""
    if is_anthropic(messages):
        return request_of([_in_blocks(message) for message in messages], None, tools or None)
    request: Json = {"messages": conversation(messages)}
    if tools:
        request["tools"] = tools
    return request


def _in_blocks(message: Json) -> Json:
    if message.get("role") != "assistant" or not message.get("tool_calls"):
        return message
    text = text_of(message.get("content"))
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    for call in map(read_call, as_list(message["tool_calls"], "tool_calls")):
        arguments = _value(call["function"]["arguments"])
        use = {"id": call["id"], "name": call["function"]["name"], "input": arguments}
        blocks.append({"type": "tool_use", **use})
    return {"role": "assistant", "content": blocks}
