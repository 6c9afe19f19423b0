"""The requests in a WebSocket of the Responses API: pruned on their way up, recorded when their answer has come.

A request is a text of the type `response.create`. One that brings its whole history is decided about like any other;
one that only continues what the upstream keeps passes unchanged. The upstream's events pass at once, and are read on
the side for the event that ends an answer: its success and its usage.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, NoReturn

from starlette.types import Scope

from drsr.proxy.admission import Share
from drsr.proxy.decider import Decided
from drsr.proxy.http.endpoints import Endpoint, endpoint_of
from drsr.proxy.http.exchange import Ending, Exchange
from drsr.proxy.http.forwarding import Parts
from drsr.proxy.http.incoming import Incoming
from drsr.proxy.http.refusals import Refusal
from drsr.proxy.http.usage import LARGEST, usage_of
from drsr.proxy.log import without_text
from drsr.proxy.websockets.frames import Frame, Frames, masked

METHOD = "WEBSOCKET"
"""Method in the log and on the page, for requests without an HTTP method."""
_CREATE = "response.create"
_ENDS = {"response.completed": 200, "response.incomplete": 200, "response.failed": 502, "error": 502}
"""Events that end an answer, with the status that it counts as if they give none."""

_log = logging.getLogger("drsr.proxy")


class _Asked(NamedTuple):
    """A request whose answer has not ended."""

    exchange: Exchange
    start: float
    meanwhile: asyncio.Task[Decided] | None
    """In shadow mode: the decision."""


class ResponsesSocket:
    """One connection. Streams of answers are distinguished by their `stream_id` if a client opens several."""

    def __init__(self, parts: Parts, scope: Scope) -> None:
        self._parts = parts
        self._incoming = Incoming({**scope, "method": "POST"}, _nothing, timeout=0.0)
        self._share = Share(parts.budget)
        self._open: dict[str | None, deque[_Asked]] = {}
        self._up = Frames(lambda size: size <= parts.settings.max_body and self._share.take(size))
        self._down = Frames(lambda size: size <= LARGEST and bool(self._open))
        self._settling: set[asyncio.Task[None]] = set()

    @staticmethod
    def is_one(path: str) -> bool:
        """Return whether a WebSocket at this path is of the Responses API."""
        return endpoint_of("POST", path) is Endpoint.RESPONSES

    async def upwards(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield what to send to the upstream for what the client sent."""
        for frame in self._up.feed(data):
            try:
                yield await self._sent(frame)
            finally:
                self._share.give_back()

    def downwards(self, data: bytes) -> None:
        """Look at what the upstream sent."""
        try:
            for frame in self._down.feed(data):
                if frame.text is not None:
                    self._look_at(frame.text)
        except (ValueError, RecursionError):  # whatever it is, it is nothing that we can read
            pass

    async def close(self) -> None:
        """Write down what has not been answered."""
        for asked in [asked for waiting in self._open.values() for asked in waiting]:
            self._settle(asked, None, Ending.CLIENT_GONE)
        self._open.clear()
        self._share.give_back()
        await asyncio.gather(*self._settling, return_exceptions=True)

    async def _sent(self, frame: Frame) -> bytes:
        """Return the frame to send: the original one if anything goes wrong."""
        if frame.text is None or _CREATE.encode() not in frame.text:
            return frame.raw
        try:
            return await self._treated(frame.raw, frame.text)
        except Exception as error:  # its text could quote the request
            _log.error("a request in a WebSocket was not read: %s", without_text(error))
            return frame.raw

    async def _treated(self, raw: bytes, text: bytes) -> bytes:
        exchange, start = Exchange(Endpoint.RESPONSES, METHOD, self._incoming.path), time.perf_counter()
        pruning, stream, meanwhile, content = self._parts.pruning, None, None, raw
        exchange.reason = pruning.left_alone(self._incoming, exchange)
        if exchange.reason is None:
            treated = await pruning.treat(self._incoming, exchange, text, self._share.take, recalls=False)
            if isinstance(treated, Refusal):  # the upstream's to judge
                return raw
            if treated.parsed is not None:
                if treated.parsed.get("type") != _CREATE:
                    return raw
                stream = treated.parsed.get("stream_id")
            meanwhile = treated.meanwhile
            content = raw if treated.content is text else masked(treated.content)
        waiting = self._open.setdefault(stream if isinstance(stream, str) else None, deque())
        waiting.append(_Asked(exchange, start, meanwhile))
        return content

    def _look_at(self, text: bytes) -> None:
        if b'"response.created"' in text:
            event = json.loads(text)
            for asked in self._of(event):
                if asked.exchange.upstream_milliseconds is None:
                    asked.exchange.upstream_milliseconds = 1000 * (time.perf_counter() - asked.start)
                    break
        elif any(f'"{kind}"'.encode() in text for kind in _ENDS):
            event = json.loads(text)
            waiting = self._of(event)
            if event.get("type") in _ENDS and waiting:
                self._settle(waiting.popleft(), event, Ending.COMPLETED)
                self._open = {stream: left for stream, left in self._open.items() if left}

    def _of(self, event: Any) -> deque[_Asked]:
        """Return the requests that an event can be about. A client that opens only one stream may omit its name."""
        stream = event.get("stream_id") if isinstance(event, dict) else None
        found = self._open.get(stream if isinstance(stream, str) else None)
        return found or (next(iter(self._open.values())) if len(self._open) == 1 else deque())

    def _settle(self, asked: _Asked, event: Any, ending: Ending) -> None:
        task = asyncio.get_running_loop().create_task(self._written_down(asked, event, ending))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _written_down(self, asked: _Asked, event: Any, ending: Ending) -> None:
        exchange = asked.exchange
        if asked.meanwhile is not None:
            self._parts.pruning.judge(await asked.meanwhile, exchange)
        if event is not None:
            status, answer = event.get("status"), event.get("response")
            exchange.answered(status if isinstance(status, int) else _ENDS[event["type"]])
            used = answer.get("usage") if isinstance(answer, dict) else None
            exchange.usage = usage_of(used) if isinstance(used, dict) else None
        exchange.ending = ending
        exchange.total_milliseconds = 1000 * (time.perf_counter() - asked.start)
        self._parts.pruning.settle(exchange)
        self._parts.activity.record(exchange)
        _log.info("%s", exchange, extra={"exchange": exchange})


async def _nothing() -> NoReturn:
    raise RuntimeError("a WebSocket's request has no separate body")
