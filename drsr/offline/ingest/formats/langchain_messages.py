"""LangChain messages as chat messages, in each of the three ways in which they are written down.

{"lc": 1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {"content": ..., "tool_calls": ...}}
{"type": "ai", "data": {"content": ..., "tool_calls": ...}}
{"type": "ai", "content": ..., "tool_calls": ...}
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.reader import dig
from drsr.offline.ingest.trajectories import Json

_ROLES = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "function",
    "FunctionMessage": "function",
}


def chat_message(value: Any) -> Json | None:
    """Return a LangChain message as a chat message; None for anything else."""
    role, fields = _role_and_fields(value)
    if role is None or "content" not in fields:
        return None
    content, thoughts = _content(fields["content"])
    message: Json = {"role": role, "content": content}
    if role == "assistant":
        calls = [*_listed(fields, "tool_calls"), *_listed(fields, "invalid_tool_calls")]
        calls = calls or _listed(fields.get("additional_kwargs"), "tool_calls")
        if calls:
            message["tool_calls"] = calls
        extra = dig(fields, "additional_kwargs", "reasoning_content")
        thoughts += [extra] if isinstance(extra, str) else []
        if thoughts:
            message["reasoning_content"] = "\n\n".join(thoughts)
    elif role == "tool":
        message["tool_call_id"] = fields.get("tool_call_id")
    return message


def _role_and_fields(value: Any) -> tuple[str | None, Json]:
    if not isinstance(value, dict) or "role" in value:
        return None, {}
    if value.get("type") == "constructor" and isinstance(value.get("id"), list) and value["id"]:
        return _role(value["id"][-1]), value["kwargs"] if isinstance(value.get("kwargs"), dict) else {}
    data = value["data"] if isinstance(value.get("data"), dict) else value
    return _role(value.get("type")), data


def _role(name: Any) -> str | None:
    return _ROLES.get(name.removesuffix("Chunk")) if isinstance(name, str) else None


def _content(content: Any) -> tuple[Any, list[str]]:
    """Content without the calls that it repeats, and the reasoning in it."""
    if not isinstance(content, list):
        return content, []
    said: list[Any] = []
    thoughts: list[str] = []
    for part in content:
        kind = dig(part, "type")
        if kind in ("thinking", "reasoning"):
            found = (part.get(key) for key in ("thinking", "reasoning", "text"))
            thoughts += [text for text in found if isinstance(text, str) and text][:1]
        elif kind not in ("tool_use", "tool_call", "function_call", "input_json_delta"):
            said.append(part)
    return said or None, thoughts


def _listed(value: Any, key: str) -> list[Any]:
    found = dig(value, key)
    return found if isinstance(found, list) else []
