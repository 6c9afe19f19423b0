"""The way of one request through the proxy: let in, read, decided about, forwarded, answered, written down."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from drsr.decision import Reason
from drsr.proxy.activity import Activity
from drsr.proxy.admission import Admission
from drsr.proxy.decider import Decided, Decider
from drsr.proxy.exchange import Ending, Exchange
from drsr.proxy.headers import asks_for_bypass, credentials, is_encoded, to_client, to_upstream
from drsr.proxy.incoming import BodyStalled, ClientGone, Incoming
from drsr.proxy.json_body import NotJson, Unreadable, parse_body
from drsr.proxy.kill_switch import KillSwitch
from drsr.proxy.reasons import ProxyReason
from drsr.proxy.receipt_writer import ReceiptWriter
from drsr.proxy.refusals import Refusal, RefusalKind
from drsr.proxy.settings import ProxySettings
from drsr.proxy.upstream import Upstream, UpstreamFailed

_log = logging.getLogger("drsr.proxy")


class Parts(NamedTuple):
    """What a request passes on its way."""

    settings: ProxySettings
    admission: Admission
    decider: Decider
    upstream: Upstream
    kill_switch: KillSwitch
    activity: Activity
    receipts: ReceiptWriter | None


class Forwarding:
    """An ASGI application that answers every request with the upstream's answer."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        incoming = Incoming(scope, receive, timeout=self._parts.settings.body_timeout)
        exchange = Exchange(incoming.endpoint, incoming.method, incoming.path)
        work = asyncio.create_task(self._serve(incoming, exchange, send))
        gone = asyncio.create_task(incoming.gone())
        try:
            # A client that hangs up ends all work for it, the upstream's included.
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
            exchange.total_milliseconds = 1000 * (time.perf_counter() - start)
            self._parts.activity.record(exchange)
            _log.info("%s", exchange, extra={"exchange": exchange})

    async def _serve(self, incoming: Incoming, exchange: Exchange, send: Send) -> None:
        refusal: Refusal | None
        try:
            if not _stays_below_upstream(incoming):
                await _refuse(_BAD_TARGET, exchange, send)
                return
            async with self._parts.admission.turn() as admitted:
                refusal = await self._pass_on(incoming, exchange, send) if admitted else _OVERLOADED
        except ClientGone:
            return
        except BodyStalled as error:
            refusal = Refusal(RefusalKind.BODY_TIMEOUT, str(error))
        except Exception as error:  # a fault of ours: said without its text, which could quote the request
            exchange.ending = Ending.FAILED
            _log.error("internal error: %s", _described(error))
            refusal = Refusal(RefusalKind.INTERNAL, f"internal error ({type(error).__name__})")
        # Where the answer has begun, returning without its end makes the server hang up, so that the client cannot
        # take the part for the whole.
        if refusal is not None and exchange.status is None:
            await _refuse(refusal, exchange, send)

    async def _pass_on(self, incoming: Incoming, exchange: Exchange, send: Send) -> Refusal | None:
        if incoming.endpoint.prunable:
            exchange.reason = self._left_alone(incoming)
        content: bytes | AsyncIterator[bytes] | None
        if incoming.endpoint.prunable and exchange.reason is None:
            body = await incoming.read(self._parts.settings.max_body)
            pruned = body if isinstance(body, Refusal) else await self._prune(incoming, exchange, body)
            if isinstance(pruned, Refusal):
                return pruned
            content = pruned
        elif incoming.has_body:
            content = incoming.stream()
        else:
            await incoming.read(0)  # nothing, but only now can a client that hangs up be noticed
            content = None
        return await self._forward(incoming, exchange, content, send)

    def _left_alone(self, incoming: Incoming) -> ProxyReason | None:
        """Why a request is not even read: it is streamed through as it comes."""
        if asks_for_bypass(incoming.headers):
            return ProxyReason.BYPASS
        if self._parts.kill_switch.engaged:
            return ProxyReason.KILL_SWITCH
        return ProxyReason.ENCODED_BODY if is_encoded(incoming.headers) else None

    async def _prune(self, incoming: Incoming, exchange: Exchange, body: bytes) -> bytes | Refusal:
        """The bytes to forward. Where nothing is removed they are the very ones that came."""
        try:
            parsed = parse_body(body)
        except NotJson as error:
            return Refusal(RefusalKind.NOT_JSON, f"the request is not JSON: {error}")
        except Unreadable:
            parsed = None
        if not isinstance(parsed, dict):
            exchange.reason = Reason.UNREADABLE_REQUEST
            return body
        decided = await self._parts.decider.decide(parsed, incoming.endpoint.protocol, credentials(incoming.headers))
        return self._judge(decided, exchange) or body

    def _judge(self, decided: Decided, exchange: Exchange) -> bytes | None:
        """What to send instead, once switches and modes were asked; writes the decision down."""
        answer = decided.answer
        exchange.decision_milliseconds = decided.milliseconds
        exchange.reason = decided.reason
        if self._parts.kill_switch.engaged:  # it may have been thrown while we decided
            exchange.reason = ProxyReason.KILL_SWITCH
        elif self._parts.settings.shadow:
            exchange.reason, exchange.shadow_reason = ProxyReason.SHADOW, decided.reason
        if answer is None:
            return None
        applied = answer.pruned and exchange.reason == decided.reason
        exchange.decision, exchange.tokens_before = answer.id, answer.tokens_before
        exchange.tokens_saved = answer.tokens_saved if applied else 0
        exchange.shadow_saved = answer.tokens_saved if exchange.shadow_reason else 0
        if self._parts.receipts is not None and answer.receipt is not None:
            about = {"endpoint": exchange.endpoint.value, "reason": str(exchange.reason), "applied": applied}
            self._parts.receipts.write(answer.receipt, about)
        return answer.content if applied else None

    async def _forward(
        self, incoming: Incoming, exchange: Exchange, content: bytes | AsyncIterator[bytes] | None, send: Send
    ) -> Refusal | None:
        """Send it, and pass the answer on as it comes. A refusal where none came."""
        start = time.perf_counter()
        headers = to_upstream(incoming.headers, new_length=isinstance(content, bytes))
        try:
            sending = self._parts.upstream.send(incoming.method, incoming.target, headers, content)
            async with sending as response:
                exchange.upstream_milliseconds = 1000 * (time.perf_counter() - start)
                exchange.status = response.status
                own = exchange.response_headers()
                await _start(send, response.status, [*to_client(response.headers), *own])
                async for chunk in response.chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except UpstreamFailed as failed:
            exchange.ending = Ending.UPSTREAM_BROKE
            return failed.refusal
        # Last of all: with it the client counts as gone, and what is not finished by then is cancelled.
        exchange.ending = Ending.COMPLETED
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None


_OVERLOADED = Refusal(RefusalKind.OVERLOADED, "too many requests are on their way already; try again")

_BAD_TARGET = Refusal(
    RefusalKind.BAD_TARGET,
    "the request's target must be a path without '..'; this is a proxy for one upstream and no other",
)


async def _refuse(refusal: Refusal, exchange: Exchange, send: Send) -> None:
    body = refusal.body(exchange.endpoint.protocol)
    exchange.status, exchange.refusal, exchange.ending = refusal.status, refusal.kind.value, Ending.REFUSED
    length = (b"content-length", str(len(body)).encode())
    await _start(send, refusal.status, [*refusal.headers(), length, *exchange.response_headers()])
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    message: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(message)


def _stays_below_upstream(incoming: Incoming) -> bool:
    """Not so: another host's address as target, or a way up out of the upstream's path."""
    return incoming.raw_path.startswith(b"/") and ".." not in incoming.path.split("/")


def _described(error: Exception) -> str:
    """The exception's class and place, without its text."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_globals.get('__name__', '')}, line {trace.tb_lineno}", trace.tb_next
    return f"{type(error).__name__} in {place}"
