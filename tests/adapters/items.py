"""Runs as items of OpenAI's Responses form."""

from __future__ import annotations

import json
from typing import Any

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


def check_items(items: list[Any]) -> None:
    """Calls and outputs pair, and no reasoning is parted from what it led to, as the Responses API demands."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    for before, item in zip([*items[1:], {}], items, strict=True):
        if item.get("type") == "reasoning":
            assert before.get("type") in ("function_call", "message")
