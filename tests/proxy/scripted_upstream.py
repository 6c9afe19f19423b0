"""A double of a model's server: speaks enough OpenAI chat and Anthropic messages, and does what the model's name says.

| model | does |
|---|---|
| `echo` | answers with the last text of the request |
| `tools` | calls `read_log` with that text |
| `gated` | sends the first piece, and the rest once `gate` is set |
| `silent` | answers once `gate` is set |
| `broken` | sends the first piece and hangs up |
| `status-429` | answers with this status |
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Recorded(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class HangUp(Exception):
    """Ends a response in its middle."""


class ScriptedUpstream:
    """The server's application, with what it saw."""

    def __init__(self) -> None:
        self.forget()
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/{path:path}", self._other, methods=METHODS),
            ]
        )

    def forget(self) -> None:
        """Begin anew, for the next test."""
        self.requests: list[Recorded] = []
        self.gate = threading.Event()
        self.hung_up = threading.Event()
        """Set when a client closed its connection before it was answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def latest(self) -> Recorded:
        return self.requests[-1]

    async def _record(self, request: Request) -> Recorded:
        query = f"?{request.url.query}" if request.url.query else ""
        target = request.scope["raw_path"].decode() + query
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        recorded = Recorded(request.method, target, headers, await request.body())
        self.requests.append(recorded)
        return recorded

    async def _other(self, request: Request) -> Response:
        recorded = await self._record(request)
        if "redirect" in recorded.target:
            return Response(status_code=307, headers={"location": "/elsewhere"})
        response = JSONResponse({"method": recorded.method, "target": recorded.target, "size": len(recorded.body)})
        response.headers.append("set-cookie", "one=1")
        response.headers.append("set-cookie", "two=2")
        response.headers["x-drsr-reason"] = "of another proxy"
        return response

    async def _chat(self, request: Request) -> Response:
        body = (await self._record(request)).json()
        return await self._answer(request, body, Chat(body))

    async def _messages(self, request: Request) -> Response:
        body = (await self._record(request)).json()
        return await self._answer(request, body, Messages(body))

    async def _responses(self, request: Request) -> Response:
        body = (await self._record(request)).json()
        return await self._answer(request, body, Responses(body))

    async def _answer(self, request: Request, body: Any, script: Chat | Messages | Responses) -> Response:
        model = str(body.get("model")) if isinstance(body, dict) else ""
        if model.startswith("status-"):
            status = int(model.removeprefix("status-"))
            return JSONResponse(script.error(status), status, headers={"retry-after-ms": "1", "x-request-id": "r1"})
        if model == "silent":
            await self._wait(request)
        if isinstance(body, dict) and body.get("stream"):
            return StreamingResponse(self._stream(request, script, model), media_type="text/event-stream")
        return JSONResponse(script.whole(), headers={"x-request-id": "r1"})

    async def _stream(self, request: Request, script: Chat | Messages | Responses, model: str) -> AsyncIterator[str]:
        events = script.events()
        try:
            for number, event in enumerate(events):
                yield event
                if number == script.first_text and model == "gated":
                    await self._wait(request)
                if number == script.first_text and model == "broken":
                    raise HangUp
        except asyncio.CancelledError:
            self.hung_up.set()
            raise

    async def _wait(self, request: Request) -> None:
        gate, hung_up = self.gate, self.hung_up
        while not gate.is_set():
            if await request.is_disconnected():
                hung_up.set()
                raise HangUp
            await asyncio.sleep(0.01)


def last_text(body: Any) -> str:
    """The last text of the last message."""
    message = body["messages"][-1]
    content = message["content"]
    return content if isinstance(content, str) else str(content[-1].get("text") or content[-1].get("content"))


class Chat:
    """OpenAI's form."""

    first_text = 1
    """Which event carries the first text."""

    def __init__(self, body: Any) -> None:
        self.text = last_text(body) if isinstance(body, dict) and body.get("messages") else ""
        self.tools = isinstance(body, dict) and body.get("model") == "tools"
        self.arguments = json.dumps({"path": self.text})
        self.says_usage = isinstance(body, dict) and "stream_options" in body

    def error(self, status: int) -> Any:
        return {"error": {"message": f"scripted {status}", "type": "scripted", "param": None, "code": "scripted"}}

    def whole(self) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": None if self.tools else self.text}
        if self.tools:
            call = {"name": "read_log", "arguments": self.arguments}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if self.tools else "stop"}
        return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": USAGE}

    def events(self) -> list[str]:
        chunks = self._chunks() + ([{"choices": [], "usage": USAGE}] if self.says_usage else [])
        return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]

    def _chunks(self) -> list[Any]:
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        if self.tools:
            named = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read_log", "arguments": ""}}
            deltas.append({"tool_calls": [named]})
            pieces = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in self.arguments]
            deltas += pieces
        else:
            deltas += [{"content": piece} for piece in halves(self.text)]
        deltas.append({})
        last = "tool_calls" if self.tools else "stop"
        return [
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else last}],
            }
            for delta in deltas
        ]


class Messages:
    """Anthropic's form."""

    first_text = 2

    def __init__(self, body: Any) -> None:
        self.text = last_text(body) if isinstance(body, dict) and body.get("messages") else ""
        self.tools = isinstance(body, dict) and body.get("model") == "tools"

    def error(self, status: int) -> Any:
        return {"type": "error", "error": {"type": "scripted", "message": f"scripted {status}"}}

    def whole(self) -> Any:
        block: dict[str, Any] = {"type": "text", "text": self.text}
        if self.tools:
            block = {"type": "tool_use", "id": "toolu_1", "name": "read_log", "input": {"path": self.text}}
        return self._message([block], "tool_use" if self.tools else "end_turn")

    def events(self) -> list[str]:
        start: dict[str, Any] = {"type": "text", "text": ""}
        pieces: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in halves(self.text)]
        if self.tools:
            start = {"type": "tool_use", "id": "toolu_1", "name": "read_log", "input": {}}
            given = json.dumps({"path": self.text})
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(given)]
        stop = {"stop_reason": "tool_use" if self.tools else "end_turn", "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": self._message([], None)},
            {"type": "content_block_start", "index": 0, "content_block": start},
            *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]

    def _message(self, content: list[Any], reason: str | None) -> Any:
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return {**about, "content": content, "stop_reason": reason, "usage": usage}


class Responses:
    """OpenAI's newer form."""

    first_text = 1

    def __init__(self, body: Any) -> None:
        said = body.get("input") if isinstance(body, dict) else None
        self.text = str(said[-1].get("content")) if isinstance(said, list) and said else str(said)

    def error(self, status: int) -> Any:
        return {"error": {"message": f"scripted {status}", "type": "scripted", "param": None, "code": "scripted"}}

    def whole(self) -> Any:
        content = [{"type": "output_text", "text": self.text, "annotations": []}]
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
        about = {"id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed", "error": None}
        return {**about, "output": [message], "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, **USED}

    def events(self) -> list[str]:
        place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**self.whole(), "output": [], "usage": None}},
            *({"type": "response.output_text.delta", "delta": piece, **place} for piece in halves(self.text)),
            {"type": "response.completed", "response": self.whole()},
        ]
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered]


USED = {
    "usage": {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
}


def halves(text: str) -> list[str]:
    """Two pieces."""
    middle = max(1, len(text) // 2)
    return [text[:middle], text[middle:]]
