"""Short ways to write messages of both protocols."""

from __future__ import annotations

from typing import Any

USER: dict[str, Any] = {"role": "user", "content": "task"}
SAYS: dict[str, Any] = {"role": "assistant", "content": "done"}


def asks(*ids: str, text: str | None = None, arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    """An OpenAI assistant message with calls."""
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": text, **fields, **({"tool_calls": calls} if calls else {})}


def answers(call_id: str, text: Any = "r") -> dict[str, Any]:
    """An OpenAI tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def texts(*contents: str) -> list[dict[str, Any]]:
    """Text parts, the same in both protocols."""
    return [{"type": "text", "text": content} for content in contents]


def uses(*ids: str, state: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """An Anthropic assistant message with calls, behind what it says."""
    blocks = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]
    return {"role": "assistant", "content": [*(state or []), *blocks]}


def returns(*ids: str, before: str = "", behind: str = "", content: Any = "r") -> dict[str, Any]:
    """An Anthropic user message with results, perhaps with text around them."""
    results = [{"type": "tool_result", "tool_use_id": i, "content": content} for i in ids]
    return {"role": "user", "content": [*texts(*filter(None, [before])), *results, *texts(*filter(None, [behind]))]}
