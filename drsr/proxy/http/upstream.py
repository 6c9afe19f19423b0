"""The one server that requests are forwarded to.

Spoken to through httpx's transport and not through its client: no redirect is followed, no cookie kept, no proxy taken
from the environment, no body decoded, no header added but host and length.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import httpx

from drsr.adapters.recall_rounds import Rounds, whole_usage
from drsr.proxy.http.answers import LARGEST
from drsr.proxy.http.headers import RawHeaders
from drsr.proxy.http.json_body import as_bytes
from drsr.proxy.http.refusals import Refusal, RefusalKind
from drsr.proxy.http.usage import Usage, usage_of
from drsr.proxy.settings import UpstreamUrl

KEPT_SECONDS = 3.0
"""How long an idle connection is kept: shorter than servers keep theirs (many 5 s), so that no request is sent into one
that is just being closed."""


class UpstreamFailed(Exception):
    """The upstream did not answer, or not to the end."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class UpstreamResponse(NamedTuple):
    """An answer of which the head has come."""

    status: int
    headers: RawHeaders
    chunks: AsyncIterator[bytes]
    """The body as it comes, still encoded. Raises UpstreamFailed where it breaks off."""


class Recalls(NamedTuple):
    """A request whose model may ask for what was removed."""

    rounds: Rounds[Any, Any]
    came: bytes
    """The very bytes that came, for when that leads nowhere."""

    @property
    def usage(self) -> Usage | None:
        """The usage of the answers that only asked for more; None where there were none, or did not say."""
        said = [answer.get("usage") for answer in self.rounds.unseen]
        whole = whole_usage(said) if said else None
        return usage_of(whole) if isinstance(whole, dict) else None


class Upstream:
    """Connections to it are kept and used again. Made and closed inside the event loop that uses it."""

    def __init__(self, url: UpstreamUrl, *, connect_timeout: float, timeout: float) -> None:
        self._url = url
        self._origin = httpx.URL(scheme=url.scheme, host=url.host, port=url.port)
        self._prefix = url.prefix.encode()
        self._timeout = timeout
        self._timeouts = {"connect": connect_timeout, "read": timeout, "write": timeout, "pool": None}
        # The number of connections is bounded by the number of requests that are let in.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEPT_SECONDS)
        self._transport = httpx.AsyncHTTPTransport(limits=limits)

    async def close(self) -> None:
        await self._transport.aclose()

    @asynccontextmanager
    async def send(
        self, method: str, target: bytes, headers: RawHeaders, content: bytes | AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Forward one request; the answer's head is there when this is entered. Leaving it early hangs up."""
        request = httpx.Request(
            method,
            self._origin,
            headers=headers,
            content=content,
            # The target as it came: a URL would be normalised, and its host is not the client's to choose.
            extensions={"timeout": self._timeouts, "target": self._prefix + target},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.TransportError as error:
            raise UpstreamFailed(self._refusal(error)) from None
        try:
            if not 200 <= response.status_code < 600:
                said = f"{self._url} answered with the status {response.status_code}, which HTTP does not have"
                raise UpstreamFailed(Refusal(RefusalKind.UPSTREAM_UNREACHABLE, said))
            yield UpstreamResponse(response.status_code, response.headers.raw, self._chunks(response))
        finally:
            await response.aclose()

    @asynccontextmanager
    async def send_recalling(
        self, method: str, target: bytes, headers: RawHeaders, content: bytes, recalls: Recalls
    ) -> AsyncIterator[UpstreamResponse]:
        """Like `send`, asking again as long as the model recalls: the last answer, with the usage of all. What is no
        success, or too long to be held, is passed on as it comes."""
        rounds = recalls.rounds
        plain = [*(header for header in headers if header[0] != b"accept-encoding"), (b"accept-encoding", b"identity")]
        while True:
            answer, following = None, None
            async with AsyncExitStack() as stack:
                try:
                    response = await stack.enter_async_context(self.send(method, target, plain, content))
                    response, held = await _held(response)
                    answer = None if held is None else _parsed(held)
                except UpstreamFailed:
                    if rounds.given_up or not rounds.unseen:
                        raise
                if answer is not None or rounds.unseen:
                    following = rounds.following(answer)
                if following is None:
                    yield _reckoned(response, rounds, answer)
                    return
            content = recalls.came if following is rounds.original else as_bytes(following)

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        try:
            async for chunk in response.stream:
                yield chunk
        except httpx.TransportError as error:
            raise UpstreamFailed(self._refusal(error)) from None

    def _refusal(self, error: httpx.TransportError) -> Refusal:
        """Our own words, and the class of the exception: its text could quote what was sent."""
        if isinstance(error, httpx.ConnectTimeout):
            return Refusal(RefusalKind.UPSTREAM_TIMEOUT, f"{self._url} did not take the connection in time")
        if isinstance(error, httpx.TimeoutException):
            return Refusal(RefusalKind.UPSTREAM_TIMEOUT, f"{self._url} sent nothing for {self._timeout:g} s")
        if isinstance(error, httpx.ConnectError):
            return Refusal(RefusalKind.UPSTREAM_UNREACHABLE, f"{self._url} cannot be reached; is it running?")
        said = f"the connection to {self._url} broke ({type(error).__name__})"
        return Refusal(RefusalKind.UPSTREAM_UNREACHABLE, said)


async def _held(response: UpstreamResponse) -> tuple[UpstreamResponse, bytes | None]:
    """The response with its body in memory; None, and the response as it comes, where that would be too much of it, or
    where it is no success."""
    if response.status != 200:
        return response, None
    pieces, size = list[bytes](), 0
    async for chunk in response.chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            return response._replace(chunks=_joined(pieces, response.chunks)), None
    return response._replace(chunks=_joined(pieces)), b"".join(pieces)


async def _joined(pieces: list[bytes], more: AsyncIterator[bytes] | None = None) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    if more is not None:
        async for piece in more:
            yield piece


def _parsed(held: bytes) -> Any:
    """An answer; None where it is none."""
    try:
        answer = json.loads(held)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _reckoned(response: UpstreamResponse, rounds: Rounds[Any, Any], answer: Any) -> UpstreamResponse:
    """The response with the usage of all answers; the very same where there was only one."""
    if answer is None or not rounds.unseen:
        return response
    body = as_bytes(rounds.reckoned(answer))
    headers = [header for header in response.headers if header[0].lower() != b"content-length"]
    length = (b"content-length", str(len(body)).encode())
    return response._replace(headers=[*headers, length], chunks=_joined([body]))
