"""The way of one request through the proxy: let in, read, decided about, forwarded, answered, recorded."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from drsr.proxy.activity import Activity
from drsr.proxy.admission import Admission, Budget, Share
from drsr.proxy.decider import Decider
from drsr.proxy.http.answers import AnswerReader
from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.exchange import Ending, Exchange
from drsr.proxy.http.headers import credentials, to_client, to_upstream
from drsr.proxy.http.incoming import BodyStalled, ClientGone, Incoming, Unread, is_path, stays_below
from drsr.proxy.http.refusals import Refusal, RefusalKind
from drsr.proxy.http.upstream import Recalls, Upstream, UpstreamFailed
from drsr.proxy.http.usage import UsageReader
from drsr.proxy.log import without_text
from drsr.proxy.pruning import Pruning, Treated
from drsr.proxy.reasons import PRUNED
from drsr.proxy.settings import ProxySettings

_log = logging.getLogger("drsr.proxy")


class Parts(NamedTuple):
    """The parts of the proxy that a request passes through."""

    settings: ProxySettings
    admission: Admission
    budget: Budget
    decider: Decider
    pruning: Pruning
    upstream: Upstream
    activity: Activity
    reading: set[asyncio.Task[None]]
    """Tasks that are reading ahead at this moment."""


class Forwarding:
    """An ASGI application that answers every request with the upstream's answer."""

    def __init__(self, parts: Parts, refusal: Refusal | None = None) -> None:
        """A refusal, if there is one, becomes the answer."""
        self._parts = parts
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        incoming = Incoming(scope, receive, timeout=self._parts.settings.body_timeout)
        exchange = Exchange(incoming.endpoint, incoming.method, incoming.path if is_path(incoming.raw_path) else "?")
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
            self._parts.pruning.settle(exchange)
            self._parts.activity.record(exchange)
            _log.info("%s", exchange, extra={"exchange": exchange})

    async def _serve(self, incoming: Incoming, exchange: Exchange, send: Send) -> None:
        refusal: Refusal | None
        try:
            refusal = self._refusal or (None if stays_below(incoming.raw_path, incoming.path) else _BAD_TARGET)
            if refusal is not None:
                await _refuse(refusal, exchange, send)
                return
            async with self._parts.admission.turn() as admitted:
                with self._parts.budget.share() as share:
                    refusal = await self._pass_on(incoming, exchange, send, share) if admitted else _OVERLOADED
        except ClientGone:
            return
        except BodyStalled as error:
            refusal = Refusal(RefusalKind.BODY_TIMEOUT, str(error))
        except Exception as error:  # a fault of ours: said without its text, which could quote the request
            exchange.ending = Ending.FAILED
            _log.error("internal error: %s", without_text(error))
            refusal = Refusal(RefusalKind.INTERNAL, f"internal error ({type(error).__name__})")
        # Where the answer has begun, returning without its end makes the server hang up, so that the client cannot
        # take the part for the whole.
        if refusal is not None and exchange.status is None:
            await _refuse(refusal, exchange, send)

    async def _pass_on(self, incoming: Incoming, exchange: Exchange, send: Send, share: Share) -> Refusal | None:
        """Read what is to be pruned, stream the rest. Return a refusal if there was nothing to forward, or forwarding
        failed."""
        pruning = self._parts.pruning
        if not incoming.endpoint.prunable:
            return await self._stream(incoming, exchange, incoming.stream(), send)
        exchange.reason = pruning.left_alone(incoming, exchange)
        if exchange.reason is not None:
            return await self._stream(incoming, exchange, incoming.stream(), send)
        body = await incoming.read(self._parts.settings.max_body, share.take)
        if isinstance(body, Unread):
            exchange.reason = body.reason
            return await self._stream(incoming, exchange, body.pieces, send)
        treated = await pruning.treat(incoming, exchange, body, share.take)
        if isinstance(treated, Refusal):
            return treated
        if incoming.endpoint is Endpoint.DECIDE:
            await _tell_decision(exchange, treated.content, send)
            return None
        try:
            return await self._forward(incoming, exchange, treated.content, send, treated)
        finally:
            if treated.meanwhile is not None:
                treated.meanwhile.cancel()

    async def _stream(
        self, incoming: Incoming, exchange: Exchange, pieces: AsyncIterator[bytes], send: Send
    ) -> Refusal | None:
        """Pass a body on as it arrives."""
        if incoming.has_body and incoming.endpoint is not Endpoint.DECIDE:
            return await self._forward(incoming, exchange, pieces, send)
        async for _ in pieces:  # to its end: only then can a client that hangs up be noticed, or look for an answer
            pass
        if incoming.endpoint is Endpoint.DECIDE:
            await _tell_decision(exchange, b"", send)
            return None
        return await self._forward(incoming, exchange, None, send)

    async def _forward(
        self,
        incoming: Incoming,
        exchange: Exchange,
        content: bytes | AsyncIterator[bytes] | None,
        send: Send,
        treated: Treated | None = None,
    ) -> Refusal | None:
        """Send the request, and pass the answer on as it arrives. Return a refusal if there was no answer."""
        start = time.perf_counter()
        meanwhile = treated.meanwhile if treated is not None else None
        told = incoming.endpoint in (Endpoint.CHAT_COMPLETIONS, Endpoint.MESSAGES)
        warm = self._parts.settings.warm and told and treated is not None and treated.parsed is not None
        headers = to_upstream(incoming.headers, new_length=isinstance(content, bytes))
        upstream, recalls = self._parts.upstream, treated.recalls if treated is not None else None
        try:
            if recalls is None or not isinstance(content, bytes):
                sending = upstream.send(incoming.method, incoming.target, headers, content)
            else:
                sending = upstream.send_recalling(incoming.method, incoming.target, headers, content, recalls)
            async with sending as response:
                _note_recalls(exchange, recalls)
                exchange.upstream_milliseconds = 1000 * (time.perf_counter() - start)
                if meanwhile is not None:
                    self._parts.pruning.judge(await meanwhile, exchange)
                exchange.answered(response.status)
                own = exchange.response_headers()
                await _start(send, response.status, [*to_client(response.headers), *own])
                answer = AnswerReader(incoming.endpoint.protocol, response.headers) if warm else None
                counted = UsageReader(response.headers) if incoming.endpoint.prunable and exchange.succeeded else None
                try:
                    async for chunk in response.chunks:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        for reader in (answer, counted):
                            if reader is not None:
                                reader.add(chunk)
                finally:  # also of an answer that breaks off: some say at the beginning what the request cost
                    said = counted.usage() if counted is not None else None
                    exchange.usage = said if recalls is None else recalls.usage_of_all(said)
        except UpstreamFailed as failed:
            exchange.ending = Ending.UPSTREAM_BROKE
            return failed.refusal
        finally:  # recalls were paid for, also where no answer came of them
            if recalls is not None and recalls.rounds.unseen and not exchange.succeeded:
                _note_recalls(exchange, recalls)
                exchange.usage = recalls.usage
        if answer is not None and treated is not None and treated.parsed is not None and exchange.status == 200:
            self._read_ahead(incoming, treated.parsed, answer)
        # Last of all: with it the client counts as gone, and what is not finished by then is cancelled.
        exchange.ending = Ending.COMPLETED
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    def _read_ahead(self, incoming: Incoming, body: dict[str, Any], answer: AnswerReader) -> None:
        """Read the conversation with its newest answer while the agent works on that; nothing waits for it."""
        message = answer.message()
        if message is not None:
            so_far = {**body, "messages": [*body["messages"], message]}
            reading = self._parts.decider.read_ahead(so_far, incoming.endpoint.protocol, credentials(incoming.headers))
            task = asyncio.create_task(reading)
            self._parts.reading.add(task)
            task.add_done_callback(self._parts.reading.discard)


def _note_recalls(exchange: Exchange, recalls: Recalls | None) -> None:
    if recalls is not None:
        exchange.recalled_for(recalls.rounds.recalled, recalls.usage, given_up=recalls.rounds.given_up)


_OVERLOADED = Refusal(RefusalKind.OVERLOADED, "too many requests are on their way already; try again")

_BAD_TARGET = Refusal(
    RefusalKind.BAD_TARGET,
    "the request's target must be a path without '..'; this is a proxy for one upstream and no other",
)


async def _refuse(refusal: Refusal, exchange: Exchange, send: Send) -> None:
    body = refusal.body(exchange.endpoint.protocol)
    exchange.refusal, exchange.ending = refusal.kind.value, Ending.REFUSED
    exchange.answered(refusal.status)
    length = (b"content-length", str(len(body)).encode())
    await _start(send, refusal.status, [*refusal.headers(), length, *exchange.response_headers()])
    await send({"type": "http.response.body", "body": body})


async def _tell_decision(exchange: Exchange, content: bytes, send: Send) -> None:
    """Answer with the decision alone. The request is said where something is missing from it."""
    saved = exchange.tokens_saved
    after = None if exchange.tokens_before is None else exchange.tokens_before - saved
    said = {
        "decision": exchange.decision,
        "pruned": exchange.reason == PRUNED,
        "reason": exchange.reason,
        "shadow_reason": exchange.shadow_reason,
        "tokens_before": exchange.tokens_before,
        "tokens_after": after,
        "tokens_saved": saved,
    }
    request = content if exchange.reason == PRUNED else b"null"
    body = json.dumps(said).encode()[:-1] + b', "request": ' + request + b"}"
    exchange.status, exchange.ending = 200, Ending.COMPLETED
    length = (b"content-length", str(len(body)).encode())
    await _start(send, 200, [(b"content-type", b"application/json"), length, *exchange.response_headers()])
    await send({"type": "http.response.body", "body": body})


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    message: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(message)
