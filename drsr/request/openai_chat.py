"""OpenAI chat messages: system, developer, user, assistant, tool, and the legacy function role.

A legacy `function_call` has no id. Its result, a message of role `function`, names the function, so the pair is held
together by `function:<name>`; a real id that begins the same way gets a prefix to keep the two apart.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection
from typing import Any

from drsr.errors import RequestError
from drsr.request.json_values import CheckedCopy
from drsr.request.parts import Call, Json, Message, Opaque, Part, Place, Reasoning, Result, Role, Text

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

_REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The two spellings in use; providers put the same kind of text there."""

_OPAQUE_FIELDS = ("audio", "reasoning_details", "thinking_blocks")
"""Fields of an assistant message that are not plain text; the latter two hold signed or encrypted reasoning."""

_DEMONSTRATION_NAMES = ("example_user", "example_assistant")
"""The names that OpenAI's guide gives to few-shot examples written as system messages."""


_FEW, _SHORT = 16, 100_000
"""Arguments of a call, and characters of one, that are far below any limit."""


def read_message(wire: Json, where: str) -> Message:
    """Return one wire message as typed parts."""
    role = _ROLES.get(wire["role"]) if isinstance(wire.get("role"), str) else None
    if role is None:
        raise RequestError(
            f"unknown role {reprlib.repr(wire.get('role'))}", where=where, hint=f"one of {', '.join(_ROLES)}"
        )
    name = wire.get("name")
    if name is not None and not isinstance(name, str):
        raise RequestError(f"name is a {type(name).__name__}, not a string", where=where)
    demonstration = wire.get("is_demo") is True or name in _DEMONSTRATION_NAMES
    if role != "assistant" and (wire.get("tool_calls") or wire.get("function_call")):
        raise RequestError(
            f"a {wire['role']} message with tool calls", where=where, hint="only the assistant calls tools"
        )
    if role == "tool":
        return Message(role, (_result(wire, where),), wire, demonstration)
    parts = _content(wire.get("content"), where, required=role != "assistant")
    if role == "assistant":
        parts = _reasoning(wire, where) + parts + _assistant_extras(wire, where) + _calls(wire, where)
    return Message(role, tuple(parts), wire, demonstration)


def without_parts(message: Message, removed: Collection[int]) -> Json:
    """Return the wire form of an assistant message without some of its parts. Only called when something stays."""
    wire = dict(message.wire)
    places = {message.parts[index].place for index in removed}
    for field in ("content", "tool_calls"):
        if isinstance(wire.get(field), list):
            wire[field] = [item for index, item in enumerate(wire[field]) if (field, index) not in places]
    for place in places:
        if len(place) == 1 and place[0] not in ("content", "refusal"):
            del wire[str(place[0])]
        elif len(place) == 1:
            wire[str(place[0])] = None
    if wire.get("content") == [] and message.wire["content"] != []:
        wire["content"] = None
    if wire.get("tool_calls") == []:
        del wire["tool_calls"]
    return wire


def _content(content: Any, where: str, *, required: bool) -> list[Part]:
    if content is None:
        if required:
            raise RequestError("no content", where=where, hint="a string, or a list of content parts")
        return []
    if isinstance(content, str):
        return [Text(content, ("content",))]
    if not isinstance(content, list):
        raise RequestError(f"content is a {type(content).__name__}", where=where, hint="a string or a list of parts")
    return [_content_part(part, ("content", index), where) for index, part in enumerate(content)]


def _content_part(part: Any, place: Place, where: str) -> Part:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise RequestError(f"content part {place[-1]} has no type", where=where)
    if kind not in ("text", "refusal"):
        return Opaque(kind, place)
    text = part.get(kind)
    if not isinstance(text, str):
        raise RequestError(f"content part {place[-1]} is a {kind} without a {kind} string", where=where)
    return Text(text, place)


def _reasoning(wire: Json, where: str) -> list[Part]:
    parts: list[Part] = []
    for field in _REASONING_FIELDS:
        text = wire.get(field)
        if text is None:
            continue
        if not isinstance(text, str):
            raise RequestError(f"{field} is a {type(text).__name__}, not a string", where=where)
        parts.append(Reasoning(text, (field,)))
    return parts


def _assistant_extras(wire: Json, where: str) -> list[Part]:
    """Return the fields of an assistant message that carry more than content: a refusal is text, the rest is opaque."""
    parts: list[Part] = []
    refusal = wire.get("refusal")
    if refusal is not None:
        if not isinstance(refusal, str):
            raise RequestError(f"refusal is a {type(refusal).__name__}, not a string", where=where)
        parts.append(Text(refusal, ("refusal",)))
    parts.extend(Opaque(field, (field,)) for field in _OPAQUE_FIELDS if wire.get(field))
    return parts


def _calls(wire: Json, where: str) -> list[Part]:
    calls: list[Part] = []
    tool_calls = wire.get("tool_calls")
    if tool_calls is not None:
        if not isinstance(tool_calls, list):
            raise RequestError(f"tool_calls is a {type(tool_calls).__name__}, not a list", where=where)
        calls.extend(_tool_call(call, ("tool_calls", index), where) for index, call in enumerate(tool_calls))
    function_call = wire.get("function_call")
    if function_call is not None:
        name, arguments = _named(function_call, "arguments", "function_call", where)
        calls.append(Call(f"function:{name}", name, arguments, ("function_call",)))
    return calls


def _tool_call(call: Any, place: Place, where: str) -> Call:
    what = f"tool call {place[-1]}"
    if not isinstance(call, dict):
        raise RequestError(f"{what} is a {type(call).__name__}, not an object", where=where)
    if not isinstance(call.get("id"), str):
        raise RequestError(f"{what} has no id string", where=where)
    body, field = ("custom", "input") if call.get("type") == "custom" else ("function", "arguments")
    name, arguments = _named(call.get(body), field, f"{what}'s {body}", where)
    return Call(_call_id(call["id"]), name, arguments, place)


def _call_id(wire_id: str) -> str:
    """Return the id unchanged, unless it looks like an id that we make up for a legacy call."""
    return f"id:{wire_id}" if wire_id.startswith(("function:", "id:")) else wire_id


def _named(body: Any, field: str, what: str, where: str) -> tuple[str, Any]:
    """Return a function's name and arguments. Arguments that are a JSON object in a string become that object."""
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        raise RequestError(f"{what} has no name string", where=where)
    arguments = body.get(field)
    if not isinstance(arguments, str):
        raise RequestError(f"{what} has no {field} string", where=where, hint="OpenAI's arguments are JSON in a string")
    return body["name"], parsed_arguments(arguments)


def parsed_arguments(arguments: str) -> Any:
    """Return the object that the string spells, or the string itself if it does not spell an object that can be written
    back."""
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict):
            return arguments
        return value if _is_plain(value) else CheckedCopy()(value, "arguments")
    except (ValueError, RecursionError, RequestError):
        return arguments


def _is_plain(arguments: dict[str, Any]) -> bool:
    """Short texts in ASCII under short names, as most tools take: nothing that a check could refuse."""
    if len(arguments) > _FEW:
        return False
    return all(
        type(value) is str and len(value) <= _SHORT and value.isascii() and len(name) <= _SHORT and name.isascii()
        for name, value in arguments.items()
    )


def _result(wire: Json, where: str) -> Result:
    if wire["role"] == "function":
        if not isinstance(wire.get("name"), str):
            raise RequestError("a function message without a name", where=where)
        call_id, required = f"function:{wire['name']}", False
    else:
        if not isinstance(wire.get("tool_call_id"), str):
            raise RequestError("a tool message without a tool_call_id string", where=where)
        call_id, required = _call_id(wire["tool_call_id"]), True
    parts = _content(wire.get("content"), where, required=required)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return Result(call_id, text, any(isinstance(part, Opaque) for part in parts), ("content",))
