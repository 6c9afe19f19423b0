"""Anthropic messages, built turn by turn: results come directly after the message that made the call.

The same rules as for OpenAI's form (`chat_form`): a result goes to the nearest preceding open call of its id, and what
a user says between a call and its result comes after the result.
"""

from __future__ import annotations

from bisect import insort
from typing import Any

from drsr.offline.ingest.formats.reader import malformed
from drsr.offline.ingest.formats.synthetic_outputs import is_synthetic
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import Unreadable

BLOCK_TYPES = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
"""Content blocks that only Anthropic's form has."""


class Turns:
    """A conversation under construction."""

    def __init__(self, *, cut: bool = False) -> None:
        """`cut`: an older part of the history was taken away, so results whose call went with it are left out."""
        self._cut = cut
        self._turns: list[_Turn] = []
        self._callers: dict[str, list[_Turn]] = {}  # assistant turns by the ids of their open calls
        self._by_message: dict[str, _Turn] = {}

    def assistant(
        self, content: Any, *, message_id: str | None = None, demo: bool = False, decided: bool = True
    ) -> None:
        """Add an assistant's message, or another piece of the message with this id. An empty one is left out.
        `decided`: a model said it here, and not the framework in its place, nor a model in an earlier stretch."""
        blocks = _blocks(content, "assistant")
        if not blocks:
            return
        turn = self._by_message.get(message_id) if message_id else None
        if turn is None:
            turn = _Turn({"role": "assistant", "content": content if isinstance(content, str) else blocks})
            if demo:
                turn.message["is_demo"] = True
            if not decided or (len(blocks) == 1 and is_synthetic(blocks[0].get("text"))):
                turn.message["is_decision"] = False
            turn.number = len(self._turns)
            self._turns.append(turn)
            if message_id:
                self._by_message[message_id] = turn
        else:
            turn.message["content"] = [*_blocks(turn.message["content"], "assistant"), *blocks]
        for block in blocks:
            if block["type"] == "tool_use":
                insort(self._callers.setdefault(block["id"], []), turn, key=lambda caller: caller.number)

    def user(self, content: Any, *, demo: bool = False) -> None:
        """Add a user's message; the results in it go to their calls, and the rest stays a separate message."""
        blocks = _blocks(content, "user")
        results = [block for block in blocks if block["type"] == "tool_result"]
        if not results:
            if blocks:
                self._say(content if isinstance(content, str) else blocks, demo)
            return
        answered = [turn for turn in map(self._answer, results) if turn is not None]
        rest = [block for block in blocks if block["type"] != "tool_result"]
        if rest and answered and answered[-1] is self._turns[-1]:
            answered[-1].rest.extend(rest)
        elif rest:
            self._say(rest, demo)

    def messages(self) -> list[Json]:
        """Return the conversation in wire form."""
        made: list[Json] = []
        for turn in self._turns:
            made.append(turn.message)
            if turn.results:
                made.append({"role": "user", "content": [*turn.results, *turn.rest]})
        return made

    def _say(self, content: Any, demo: bool) -> None:
        message: Json = {"role": "user", "content": content}
        if demo:
            message["is_demo"] = True
        self._turns.append(_Turn(message))

    def _answer(self, block: Json) -> _Turn | None:
        call_id = block["tool_use_id"]
        callers = self._callers.get(call_id)
        if not callers and self._cut:
            return None
        if not callers:
            raise Unreadable("dangling_result", f"a result for the call {call_id!r}, which no message before it makes")
        turn = callers.pop()
        turn.results.append(block)
        return turn


class _Turn:
    __slots__ = ("message", "number", "rest", "results")

    def __init__(self, message: Json) -> None:
        self.message = message
        self.number = 0  # where an assistant's stands among all turns
        self.results: list[Json] = []
        self.rest: list[Json] = []


def read_system(system: Any) -> str | list[Json] | None:
    """Return a `system` field in wire form."""
    if system is None or isinstance(system, str):
        return system or None
    return _blocks(system, "system") or None


def _blocks(content: Any, role: str) -> list[Json]:
    """Content as blocks, each of them checked."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise malformed(f"the content of a {role} message", "a string or a list", content)
    return [_block(block, role) for block in content]


def _block(block: Any, role: str) -> Json:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise malformed(f"a content block of a {role} message", "an object with a type", block)
    if kind in ("text", "thinking") and not isinstance(block.get(kind), str):
        raise malformed(f"the {kind} of a content block", "a string", block.get(kind))
    if kind == "tool_use":
        if role != "assistant":
            raise Unreadable("malformed", f"a tool_use block in a {role} message")
        if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str) or not block["name"]:
            raise Unreadable("malformed", "a tool_use block without id and name")
        if not isinstance(block.get("input"), dict):
            raise malformed("the input of a tool_use block", "an object", block.get("input"))
    if kind == "tool_result":
        if role != "user" or not isinstance(block.get("tool_use_id"), str):
            raise Unreadable("malformed", f"a tool_result block in a {role} message, or one without its call's id")
        if not isinstance(block.get("content"), str | list | None):
            raise malformed("the content of a tool_result block", "a string or a list", block["content"])
        if isinstance(block.get("content"), list):
            parts = [_block(part, "tool") for part in block["content"]]
            if any(isinstance(part, str) for part in block["content"]):
                return {**block, "content": parts}
    return block  # type: ignore[no-any-return]
