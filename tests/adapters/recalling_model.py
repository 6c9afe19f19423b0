"""A scripted double of a model that asks for what was removed: for the list first, then for the first part listed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from drsr.receipts.recall import RECALL
from tests.adapters.long_run import TOOLS, anthropic_tools

FINAL = "done"
EACH = 10
"""Tokens that it reports of every input, of which it calls half cached where its protocol can say so."""
ITS_TOOLS: dict[str, list[Any]] = {
    "chat": TOOLS,
    "messages": anthropic_tools(),
    "responses": [{"type": "function", **tool["function"]} for tool in TOOLS],
}
"""The sample run's tools in each protocol's form."""


@dataclass
class RecallingModel:
    """Answers one protocol's requests: `chat`, `messages` or `responses`."""

    protocol: str
    also: str | None = None
    """A tool of the program's that it calls beside every recall."""
    endless: bool = False
    """Whether it never has enough."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """Results of recalls that it was given."""

    @property
    def history(self) -> str:
        return "input" if self.protocol == "responses" else "messages"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. It recalls where it is offered the tool, and at most the first part."""
        self.bodies.append(body)
        told = self._told(body)
        self.results += told[:1]
        names = [(tool.get("function") or tool).get("name") for tool in body.get("tools") or ()]
        if RECALL not in names or (told and not told[0].startswith("Removed, by id:") and not self.endless):
            return self._whole([])
        part = told[0].splitlines()[1].partition(":")[0] if told and told[0].startswith("Removed") else None
        wanted = {"id": part} if part else {}
        return self._whole([(RECALL, wanted), *([(self.also, {"path": "a"})] if self.also else [])])

    def _told(self, body: dict[str, Any]) -> list[str]:
        """Results that follow the newest calls of the model."""
        found: list[str] = []
        for item in reversed(body[self.history]):
            if item.get("role") == "tool":
                found.append(item["content"])
            elif item.get("type") == "function_call_output":
                found.append(item["output"])
            elif item.get("role") == "user" and isinstance(item["content"], list):
                return [block["content"] for block in item["content"] if str(block.get("tool_use_id")).startswith("r")]
            else:
                break
        return list(reversed(found)) if self._is_ours(body) else []

    def _is_ours(self, body: dict[str, Any]) -> bool:
        """Whether the newest calls are this model's, and not the recorded run's."""
        return any('"id": "r' in json.dumps(item) or '"call_id": "r' in json.dumps(item) for item in body[self.history])

    def _whole(self, calls: list[tuple[str, Any]]) -> dict[str, Any]:
        named = [(f"r{len(self.bodies)}{place}", name, given) for place, (name, given) in enumerate(calls)]
        if self.protocol == "chat":
            return _completion(named)
        return _message(named) if self.protocol == "messages" else _response(named)


def _completion(calls: list[tuple[str, str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else FINAL}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for call_id, name, given in calls
        ]
    usage = {"prompt_tokens": EACH, "completion_tokens": 1, "total_tokens": EACH + 1}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": EACH // 2}},
    }


def _message(calls: list[tuple[str, str, Any]]) -> dict[str, Any]:
    said = [{"type": "tool_use", "id": call_id, "name": name, "input": given} for call_id, name, given in calls]
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": said or [{"type": "text", "text": FINAL}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": EACH, "output_tokens": 1},
    }


def _response(calls: list[tuple[str, str, Any]]) -> dict[str, Any]:
    said: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"f{call_id}", "call_id": call_id, "name": name, "arguments": json.dumps(given)}
        for call_id, name, given in calls
    ]
    text = {"type": "output_text", "text": FINAL, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": said or [message],
        "usage": {
            "input_tokens": EACH,
            "input_tokens_details": {"cached_tokens": EACH // 2},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": EACH + 1,
        },
    }
