"""Anthropic messages: user and assistant turns made of content blocks; the system prompt is kept outside the list."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

from drsr.errors import RequestError
from drsr.request.parts import Call, Json, Message, Opaque, Part, Place, Reasoning, Result, Role, Text

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def read_message(wire: Json, where: str) -> Message:
    """Return one wire message as typed parts."""
    role = _ROLES.get(wire["role"]) if isinstance(wire.get("role"), str) else None
    if role is None:
        raise RequestError(
            f"unknown role {reprlib.repr(wire.get('role'))}",
            where=where,
            hint="user or assistant; the system prompt of an Anthropic request is its `system` field",
        )
    if wire.get("tool_calls") or wire.get("function_call"):
        raise RequestError(
            "OpenAI's tool calls in an Anthropic message", where=where, hint="Anthropic's are tool_use blocks"
        )
    return Message(role, tuple(_content(wire.get("content"), role, where)), wire, wire.get("is_demo") is True)


def read_system(system: Any, where: str) -> Message:
    """Return the request's `system` field as a message, so that rendering sees one kind of thing."""
    parts = _content(system, "system", where)
    return Message("system", tuple(parts), {"role": "system", "content": system})


def without_parts(message: Message, removed: Collection[int]) -> Json:
    """Return the wire form of a message without some of its blocks. Only called when something stays."""
    places = {message.parts[index].place for index in removed}
    kept = [block for index, block in enumerate(message.wire["content"]) if ("content", index) not in places]
    return {**message.wire, "content": kept}


def _content(content: Any, role: Role, where: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content, ("content",))]
    if not isinstance(content, list):
        raise RequestError(
            f"content is a {type(content).__name__}", where=where, hint="a string or a list of content blocks"
        )
    return [_block(block, ("content", index), role, where) for index, block in enumerate(content)]


def _block(block: Any, place: Place, role: Role, where: str) -> Part:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        raise RequestError(f"content block {place[-1]} has no type", where=where)
    what = f"content block {place[-1]} ({kind})"
    if kind in ("text", "thinking"):
        if not isinstance(block.get(kind), str):
            raise RequestError(f"{what} has no {kind} string", where=where)
        return Text(block[kind], place) if kind == "text" else Reasoning(block[kind], place)
    if kind == "tool_use":
        if role != "assistant":
            raise RequestError(f"{what} in a {role} message", where=where, hint="only the assistant calls tools")
        if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
            raise RequestError(f"{what} has no id and name strings", where=where)
        if not isinstance(block.get("input"), dict):
            raise RequestError(f"{what} has no input object", where=where)
        return Call(block["id"], block["name"], block["input"], place)
    if kind == "tool_result":
        if role != "user":
            raise RequestError(f"{what} in a {role} message", where=where, hint="results are sent by the user")
        return _result(block, place, what, where)
    return Opaque(kind, place)


def _result(block: Json, place: Place, what: str, where: str) -> Result:
    if not isinstance(block.get("tool_use_id"), str):
        raise RequestError(f"{what} has no tool_use_id string", where=where)
    content = block.get("content")
    if content is None:  # the field may be left out when a tool answers nothing
        return Result(block["tool_use_id"], "", False, place)
    parts = _content(content, "tool", where)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return Result(block["tool_use_id"], text, not all(isinstance(part, Text) for part in parts), place)
