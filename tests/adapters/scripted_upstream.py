"""A scripted double of a provider behind the SDKs' own transport: it answers, and remembers what it was sent."""

from __future__ import annotations

import json
from typing import Any

import httpx2


class ScriptedUpstream:
    """Speaks both protocols, with and without streaming. Every request's body and headers are kept."""

    def __init__(self, *, fail_first: int = 0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx2.Headers] = []
        self.paths: list[str] = []
        self.fail_first = fail_first
        self.transport = httpx2.MockTransport(self.answer)

    @property
    def sent(self) -> list[Any]:
        """The messages of the last request."""
        messages: list[Any] = self.bodies[-1]["messages"]
        return messages

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        self.headers.append(request.headers)
        self.paths.append(request.url.path)
        if len(self.bodies) <= self.fail_first:
            error = {"error": {"message": "try again", "type": "server_error"}}
            return httpx2.Response(500, json=error, headers={"retry-after-ms": "1"})
        anthropic = request.url.path.startswith("/v1/messages") or "anthropic_version" in body
        if request.url.path.endswith("/count_tokens"):
            return httpx2.Response(200, json={"input_tokens": len(body["messages"])})
        if request.url.path.endswith("/responses"):
            return httpx2.Response(200, json=_RESPONSE)
        if body.get("stream"):
            events = _anthropic_events() if anthropic else _openai_events()
            return httpx2.Response(200, text="".join(events), headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, json=_MESSAGE if anthropic else _COMPLETION)


_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "scripted",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}

_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "scripted",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": []}],
        }
    ],
}

_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "scripted",
    "content": [{"type": "text", "text": "done"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def _openai_events() -> list[str]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "do"}, None),
        ({"content": "ne"}, None),
        ({}, "stop"),
    ]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


def _anthropic_events() -> list[str]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "do"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ne"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
