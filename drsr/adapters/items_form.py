"""Items of OpenAI's Responses form: what the Agents SDK keeps, and what `responses.create(input=[...])` takes.

A model's turn is several items: reasoning, messages, calls. They belong together until an output or another speaker
follows. Items are removed as a whole, and those that stay are the caller's own objects. A reasoning item leads to the
items after it, up to the next reasoning item, and is removed with the last of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from drsr.adapters.chat_view import ChatView, Content, call, led_to, opaque, text
from drsr.adapters.forms import Body, Removed, as_json
from drsr.errors import RequestError

HOSTED = frozenset(
    {
        *("file_search_call", "web_search_call", "image_generation_call", "code_interpreter_call"),
        *("mcp_call", "mcp_list_tools"),
    }
)
"""Calls that the provider answers itself, in one item."""


@dataclass(slots=True)
class _Turn:
    """The items of one turn, by their index."""

    messages: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    """Indices of all its items."""
    content: Content = field(default_factory=list)
    requested: list[dict[str, Any]] = field(default_factory=list)
    order: list[int | None] = field(default_factory=list)
    """Component of each item, None for reasoning: see `ChatView.answer`."""

    def left_behind(self, gone: set[int]) -> set[int]:
        """Return the reasoning items that led only to what is gone."""
        return {
            self.whole[place]
            for reasoning, led in led_to(self.order)
            if all(self.whole[place] in gone for place in led)
            for place in reasoning
        }


class ItemsForm:
    """Items, expressed turn by turn."""

    format: Literal["openai"] = "openai"

    def __init__(self, instructions: str | None, tools: Sequence[Any], items: list[Any]) -> None:
        self._items = items
        self._view = ChatView([text(instructions)] if instructions else None)
        self._told: dict[int, _Turn] = {}
        self._turn = _Turn()
        for index, item in enumerate(items):
            self._tell(as_json(item), index)
        self._flush()
        self.pinned = frozenset(self._view.pinned)
        self.request = {"messages": self._view.messages, "tools": list(tools)}

    def without(self, removed: Removed) -> list[Any]:
        gone: set[int] = set()
        for index in removed.messages:
            gone.update(self._told[index].whole)
        for index in removed.places:
            told, less = self._told[index], removed.of(index)
            gone.update(told.messages if less.text else [])
            gone.update(told.calls[place] for place in less.calls)
            gone |= told.left_behind(gone)
        return [item for index, item in enumerate(self._items) if index not in gone]

    def _tell(self, item: Any, index: int) -> None:
        kind = item.get("type", "message") if isinstance(item, dict) else type(item).__name__
        if not isinstance(kind, str):
            raise RequestError(f"its type is a {type(kind).__name__}, not a text", where=f"item {index}")
        if kind == "message" and item.get("role") != "assistant":
            self._flush()
            self._told[self._view.say(item.get("role"), _content(item.get("content")))] = _Turn(whole=[index])
            return
        if kind.endswith("_call_output") and isinstance(item.get("call_id"), str):
            self._flush()
            self._told[self._view.result(item["call_id"], _content(item.get("output")))] = _Turn(whole=[index])
            return
        turn = self._turn
        turn.whole.append(index)
        component: int | None = 0
        if kind == "message":
            turn.messages.append(index)
            turn.content += _content(item.get("content"))
        elif kind == "reasoning":
            component = None
        elif kind in HOSTED:
            turn.content.append(opaque(kind))
        elif kind.endswith("_call") and isinstance(item.get("call_id"), str):
            turn.calls.append(index)
            component = len(turn.calls)
            turn.requested.append(call(item["call_id"], str(item.get("name", kind)), _arguments(item)))
        else:
            raise RequestError(f"a {kind}, which cannot be represented as a chat message", where=f"item {index}")
        turn.order.append(component)

    def _flush(self) -> None:
        """End the present turn."""
        turn, self._turn = self._turn, _Turn()
        if turn.whole:
            self._told[self._view.answer(turn.content, turn.requested, sealed=turn.order)] = turn


class ResponsesBody:
    """The body of `responses.create`, whose `input` are items."""

    format: Literal["openai"] = "openai"

    def __init__(self, body: Body) -> None:
        items = body.get("input")
        if not isinstance(items, list):
            raise RequestError("no list of items", where="field 'input'")
        self._body = body
        self._form = ItemsForm(body.get("instructions") or None, as_json(body.get("tools") or []), items)
        self.request = self._form.request
        self.pinned = self._form.pinned

    def without(self, removed: Removed) -> Body:
        return {**self._body, "input": self._form.without(removed)}


def _arguments(item: dict[str, Any]) -> str:
    """Return the input of a call: a function's arguments, a custom tool's input, or whatever else the item holds."""
    given = item.get("arguments", item.get("input"))
    about = ("type", "id", "call_id", "status")
    return given if isinstance(given, str) else json.dumps({key: item[key] for key in item if key not in about})


def _content(content: Any) -> Content:
    """Return the content of a message, or what a tool gave out."""
    if isinstance(content, str):
        return [text(content)]
    if not isinstance(content, list):
        return [opaque(type(content).__name__)]
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    said = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text", "refusal") and isinstance(said, str):
        return text(said)
    return opaque(str(kind))
