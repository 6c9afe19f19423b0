"""A framework's own history expressed as OpenAI chat messages, one after another.

What cannot be expressed stays where it is: content that is not text becomes a part that drsr never deletes. Some
reasoning must not be separated from what it led to: a signed thinking block, a `reasoning` item of the Responses API.
Providers refuse a part whose sealed reasoning is missing, and sealed reasoning without the part that directly followed
it. So a turn is expressed without such *sealed* reasoning, which is removed together with the last part that it led to;
and the part that directly follows it is pinned as long as other parts depend on that reasoning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

Content = list[dict[str, Any]]
"""Content parts, as `text(...)` and `opaque(...)` make them."""


class ChatView:
    """Collects the messages. Every method gives the index of the message it made."""

    def __init__(self, system: Content | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.pinned: set[tuple[int, int]] = set()
        """Blocks that may not go, each by its message and its component (`drsr.request.history.Block`)."""
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
        sealed: Sequence[int | None] = (),
        pinned: bool = False,
    ) -> int:
        """Add one turn of the assistant: its text, its calls as `call` makes them, and its unsealed reasoning.

        `sealed` is the order of the parts of a turn with sealed reasoning: None for each reasoning, else the part's
        component (0 for text, 1 for the first call and so on). `pinned` keeps the whole turn.
        """
        content = [part for part in content if part.get("text") != ""]
        if None in sealed and not content and not calls:
            content = [opaque("reasoning")]
        message: dict[str, Any] = {"role": "assistant", "content": _plain(content)}
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
        index = self._add(message)
        if pinned or (reasoning and None in sealed):
            most = max(len(calls), 1)  # a text may be an action, which is decided about as a call
            self.pinned.update((index, component) for component in range(most + 1))
        for _, led in led_to(sealed):
            first = sealed[led[0]]
            if first is not None and any(sealed[place] != first for place in led):
                self.pinned.add((index, first))
        return index

    def result(self, call_id: str, content: Content) -> int:
        """Return what a tool answered."""
        return self._add({"role": "tool", "tool_call_id": call_id, "content": _plain(content) or ""})

    def _add(self, message: dict[str, Any]) -> int:
        self.messages.append(message)
        return len(self.messages) - 1


def led_to(sealed: Sequence[int | None]) -> list[tuple[list[int], list[int]]]:
    """Return, for each sealed reasoning of a turn (adjacent ones together), its positions in the turn and those of what
    it led to."""
    runs = groupby(range(len(sealed)), lambda place: sealed[place] is None)
    listed = [(reasons, list(places)) for reasons, places in runs]
    return [(places, led) for (reasons, places), (_, led) in zip(listed, listed[1:], strict=False) if reasons]


def reasons_first(sealed: Sequence[int | None]) -> bool:
    """Return whether all sealed reasoning of a turn comes before everything else in it, so that it stays with whatever
    is left of the turn and is removed only with the whole turn."""
    return None not in sealed[sealed.count(None) :]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def opaque(kind: str) -> dict[str, Any]:
    """Return a part for something that is not text. Its bytes are irrelevant here."""
    return {"type": "other" if kind in ("text", "refusal") else kind}


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _plain(content: Content) -> Any:
    """Return one text as a string, the form of most contents."""
    if len(content) == 1 and "text" in content[0]:
        return content[0]["text"]
    return content or None


def joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with adjacent answers joined: the framework does not keep them apart, so a deletion that
    makes two of them adjacent joins them."""
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
