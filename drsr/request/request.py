"""A request to a language model as typed values: OpenAI chat and Anthropic messages, in and out.

    request = read_request({"messages": [...], "tools": [...]})
    request.to_wire()          # equal to what was read, field by field

Reading copies: the caller's object is never changed, and later changes to it do not reach a Request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

from drsr.errors import RequestError
from drsr.request import anthropic_messages, openai_chat
from drsr.request.json_values import CheckedCopy, copied
from drsr.request.parts import Message

Protocol = Literal["openai", "anthropic"]

_WIRE: dict[Protocol, ModuleType] = {"openai": openai_chat, "anthropic": anthropic_messages}

_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking"}
_OPENAI_ROLES = {"system", "developer", "tool", "function"}
_OPENAI_FIELDS = {"tool_calls", "function_call"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its messages, and all other fields carried along."""

    protocol: Protocol
    messages: tuple[Message, ...]
    system: Message | None
    """Anthropic's `system` field; OpenAI's system messages are among the messages."""
    tools: list[Any]
    """The tool definitions as received, OpenAI's legacy `functions` among them."""
    fields: dict[str, Any] | None
    """The request body as received; None if a bare list of messages was passed in."""

    def to_wire(self) -> Any:
        """Return the request body (or the bare list) in the protocol's own form; the caller may change it."""
        messages = [copied(message.wire) for message in self.messages]
        if self.fields is None:
            return messages
        return {key: messages if key == "messages" else copied(value) for key, value in self.fields.items()}

    def with_messages(self, messages: Sequence[Message]) -> Request:
        """Return the same request with other messages."""
        return replace(self, messages=tuple(messages))

    def without_parts(self, index: int, removed: set[int]) -> Message:
        """Return the request with message `index` stripped of some of its parts. At least one part must remain."""
        wire = _WIRE[self.protocol]
        message: Message = wire.read_message(wire.without_parts(self.messages[index], removed), f"message {index}")
        return message


def read_request(body: Any, *, protocol: Protocol | None = None, where: str | None = None) -> Request:
    """Read a request body (or a bare list of messages). Without `protocol` the form is detected by content.

    Raises RequestError with the message's index. `where` (a file's name) is put in front of every complaint.
    """
    place = f"{where}: " if where else ""
    fields = None if isinstance(body, list) else body
    messages = body if isinstance(body, list) else body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        raise RequestError(
            "no list of messages",
            where=where,
            hint='expected {"messages": [...]} in OpenAI chat or Anthropic form, or a bare list of messages',
        )
    checked = CheckedCopy()
    wires = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise RequestError(
                f"a {type(message).__name__}, not an object",
                where=f"{place}message {index}",
                hint="for an SDK object call its model_dump(exclude_none=True) first",
            )
        wires.append(checked.message(message, f"{place}message {index}"))
    rest = None
    if fields is not None:
        rest = {
            checked.key(key, f"{place}field"): None
            if key == "messages"
            else checked(value, f"{place}field {key!r:.80}")
            for key, value in fields.items()
        }
    protocol = protocol or detect_protocol(wires, rest, where)
    if protocol not in _WIRE:
        raise ValueError(f"unknown protocol {protocol!r}: one of {', '.join(_WIRE)}")
    read_message = _WIRE[protocol].read_message
    system = None
    if protocol == "anthropic" and rest and rest.get("system") is not None:
        system = anthropic_messages.read_system(rest["system"], f"{place}field 'system'")
    return Request(
        protocol=protocol,
        messages=tuple(read_message(wire, f"{place}message {index}") for index, wire in enumerate(wires)),
        system=system,
        tools=_definitions(rest or {}, place),
        fields=rest,
    )


def _definitions(fields: dict[str, Any], place: str) -> list[Any]:
    found: list[Any] = []
    for field in ("tools", "functions"):
        value = fields.get(field)
        if value is not None and not isinstance(value, list):
            raise RequestError(f"a {type(value).__name__}, not a list", where=f"{place}field {field!r}")
        found += value or []
    return found


def read_output(body: Any, protocol: Protocol, *, where: str) -> Message:
    """Read a single assistant message, in the protocol of the request that it answers."""
    if not isinstance(body, dict):
        raise RequestError(f"a {type(body).__name__}, not an assistant message", where=where)
    message: Message = _WIRE[protocol].read_message(CheckedCopy().message(body, where), where)
    if message.role != "assistant":
        raise RequestError(f"a message of role {message.role}, not of the assistant", where=where)
    return message


def detect_protocol(messages: list[dict[str, Any]], fields: dict[str, Any] | None, where: str | None) -> Protocol:
    """Return the wire form. Plain user and assistant strings are the same in both and count as OpenAI's."""
    anthropic = "the field 'system'" if fields and fields.get("system") is not None else None
    tools = (fields or {}).get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
        anthropic = anthropic or "a tool's input_schema"
    openai = None
    for index, message in enumerate(messages):
        if str(message.get("role")) in _OPENAI_ROLES or _OPENAI_FIELDS & message.keys():
            openai = openai or f"message {index} ({message.get('role')})"
        content = message.get("content")
        if isinstance(content, list) and any(_is_anthropic(block) for block in content):
            anthropic = anthropic or f"message {index}'s content blocks"
    if anthropic and openai:
        raise RequestError(
            f"mixes two protocols: Anthropic's by {anthropic}, OpenAI's by {openai}",
            where=where,
            hint="say which it is with --format or protocol=",
        )
    return "anthropic" if anthropic else "openai"


def _is_anthropic(block: Any) -> bool:
    """Return whether a content block is of a type that only Anthropic's protocol has; its images and documents have a
    `source`."""
    return isinstance(block, dict) and (str(block.get("type")) in _ANTHROPIC_BLOCKS or "source" in block)
