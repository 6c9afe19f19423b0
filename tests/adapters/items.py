"""Runs as items of OpenAI's Responses form."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

from tests.conversations import Conversation


def run_items(run: Conversation, *, reasoning: bool = False) -> list[Any]:
    """The run as the Agents SDK keeps it; with `reasoning` every turn starts with an encrypted item of that kind."""
    items: list[Any] = [{"role": "user", "content": run.task}]
    for number, turn in enumerate(run.turns):
        if reasoning:
            items.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "xyz"})
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": []}]
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{number}",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        items += [
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": e.call_id,
                "name": e.name,
                "arguments": json.dumps(e.arguments),
            }
            for e in turn.exchanges
        ]
        items += [{"type": "function_call_output", "call_id": e.call_id, "output": e.answer} for e in turn.exchanges]
        items += [{"role": "user", "content": turn.user}] if turn.user else []
    return items


_SDK: TypeAdapter[ResponseInputParam] = TypeAdapter(ResponseInputParam)


def check_items(items: list[Any], original: list[Any]) -> None:
    """What is left of a request is one as the SDK types it, and keeps the rules of the Responses API: calls and outputs
    pair, a reasoning item is directly followed by what followed it, and what it led to has it in front."""
    _SDK.validate_python(items)
    assert [item for item in original if item in items] == items
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    for item, follows in zip(items, [*items[1:], None], strict=True):
        if item.get("type") == "reasoning":
            assert follows == original[original.index(item) + 1]
        if led_by(original, item):
            assert led_by(items, item) == led_by(original, item)


def led_by(items: list[Any], item: Any) -> Any:
    """The reasoning item that led to this one: the nearest before it in the same turn."""
    if item.get("type") not in ("function_call", "message"):
        return None
    for before in reversed(items[: items.index(item)]):
        if before.get("type") == "reasoning":
            return before
        if before.get("type") == "function_call_output" or before.get("role") == "user":
            return None
    return None
