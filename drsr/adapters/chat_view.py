"""A framework's own history told as OpenAI chat messages, one after another.

What cannot be told stays where it is: content that is no text becomes a part that drsr never deletes. Some reasoning
must not be parted from what it led to: a signed thinking block, a `reasoning` item of the Responses API, whose absence
(or whose presence without the rest of its turn) providers refuse. A turn with such *sealed* reasoning goes as a whole
or not at all: it is told without the reasoning where it is a single Block, and is pinned where it is several.
"""

from __future__ import annotations

from typing import Any

Content = list[dict[str, Any]]
"""Content parts, as `text(...)` and `opaque(...)` make them."""


class ChatView:
    """Collects the messages. Every method gives the index of the message it made."""

    def __init__(self, system: Content | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.pinned: set[int] = set()
        """Messages of which nothing may go."""
        if system:
            self.say("system", system)

    def say(self, role: str, content: Content) -> int:
        """Somebody other than the assistant and its tools."""
        return self._add({"role": role, "content": _plain(content) or ""})

    def answer(
        self,
        content: Content,
        calls: list[dict[str, Any]],
        *,
        reasoning: str = "",
        sealed: bool = False,
        pinned: bool = False,
    ) -> int:
        """One turn of the assistant: what it says, its calls as `call` makes them, what it thought in the clear."""
        content = [part for part in content if part.get("text") != ""]
        blocks = bool(content) + len(calls)
        if sealed and blocks == 0:
            content = [opaque("reasoning")]
        message: dict[str, Any] = {"role": "assistant", "content": _plain(content)}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        index = self._add(message)
        if pinned or (sealed and (blocks > 1 or reasoning)):
            self.pinned.add(index)
        return index

    def result(self, call_id: str, content: Content) -> int:
        """Return what a tool answered."""
        return self._add({"role": "tool", "tool_call_id": call_id, "content": _plain(content) or ""})

    def _add(self, message: dict[str, Any]) -> int:
        self.messages.append(message)
        return len(self.messages) - 1


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def opaque(kind: str) -> dict[str, Any]:
    """Something that is not text. Its bytes are nobody's business here."""
    return {"type": "other" if kind in ("text", "refusal") else kind}


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _plain(content: Content) -> Any:
    """One text as a string, as most of them come."""
    if len(content) == 1 and "text" in content[0]:
        return content[0]["text"]
    return content or None


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with neighbouring answers told as one: where a framework keeps no line between them, a deletion that
    makes two of them neighbours joins them."""
    told: list[dict[str, Any]] = []
    for message in messages:
        if message.get("role") != "assistant":
            told.append(message)
            continue
        content = message.get("content")
        parts = [text(content)] if isinstance(content, str) else content or []
        if not told or told[-1].get("role") != "assistant":
            told.append({"role": "assistant", "content": [], "reasoning": [], "calls": []})
        told[-1]["content"] += parts
        told[-1]["reasoning"] += [message["reasoning_content"]] if message.get("reasoning_content") else []
        told[-1]["calls"] += message.get("tool_calls") or []
    return told
