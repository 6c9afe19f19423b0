"""The one server that requests are forwarded to.

Spoken to through httpx's transport and not through its client: no redirect is followed, no cookie kept, no proxy taken
from the environment, no body decoded, no header added but host and length.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import httpx

from drsr.proxy.http.headers import RawHeaders
from drsr.proxy.http.refusals import Refusal, RefusalKind
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
