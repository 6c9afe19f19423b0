"""The one server that requests are forwarded to.

Spoken to through httpx's transport and not through its client: no redirect is followed, no cookie kept, no proxy taken
from the environment, no body decoded, no header added but host and length.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from drsr.adapters.recall_rounds import Rounds
from drsr.adapters.recall_wires import whole_usage
from drsr.proxy.http.answers import LARGEST, unpacked
from drsr.proxy.http.headers import RawHeaders
from drsr.proxy.http.json_body import as_bytes
from drsr.proxy.http.refusals import Refusal, RefusalKind
from drsr.proxy.http.usage import Usage, usage_of
from drsr.proxy.settings import UpstreamUrl
from drsr.receipts.recall import RECALL

KEPT_SECONDS = 3.0
"""Seconds for which an idle connection is kept: less than servers keep theirs (many 5 s), so that no request is sent
into a connection that is just being closed."""


class UpstreamFailed(Exception):
    """The upstream did not answer, or not to the end."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class UpstreamResponse(NamedTuple):
    """An answer whose head has arrived."""

    status: int
    headers: RawHeaders
    chunks: AsyncIterator[bytes]
    """The body as it arrives, still encoded. Raises UpstreamFailed if it breaks off."""


@dataclass(slots=True)
class Recalls:
    """A request whose model may ask for what was removed."""

    rounds: Rounds[Any, Any]
    came: bytes
    """The very bytes that came, for when that leads nowhere."""
    told: bool = False
    """True if the answer that is passed on reports the usage of all."""

    @property
    def usage(self) -> Usage | None:
        """Return the usage of the answers that the client does not see; None if one of them does not report it."""
        said = [answer.get("usage") for answer in self.rounds.unseen]
        if not all(isinstance(one, dict) for one in said):
            return None
        return usage_of(whole_usage(said)) if said else Usage(0, 0, 0, 0)

    def usage_of_all(self, said: Usage | None) -> Usage | None:
        """Return the usage of the exchange, if the answer that was passed on reports it."""
        before = self.usage
        return said if said is None or before is None or self.told else before.plus(said)


class Upstream:
    """The upstream. Connections to it are kept and reused. Created and closed inside the event loop that uses it."""

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
        """Forward one request; the answer's head has arrived when this is entered. Leaving it early hangs up."""
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
        """Send like `send`, asking again as long as the model recalls; yield the last answer, with the usage of all. An
        answer that is not a success, or too long to hold, is passed on as it arrives, unless the tool may be the
        reason."""
        rounds = recalls.rounds
        plain = [*(header for header in headers if header[0] != b"accept-encoding"), (b"accept-encoding", b"identity")]
        while True:
            async with AsyncExitStack() as stack:
                try:
                    response = await stack.enter_async_context(self.send(method, target, plain, content))
                    response, following = await _next(response, recalls)
                except UpstreamFailed:
                    following = rounds.after_error(None)
                    if following is None:
                        raise
                if following is None:
                    yield response
                    return
            content = _written(following, recalls)

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
    """Return the response with its body in memory and the body; or None and the response as it arrives, if the body is
    too long or the response is not a success."""
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


async def _next(response: UpstreamResponse, recalls: Recalls) -> tuple[UpstreamResponse, Any]:
    """Return the response for the client and None, or what to send instead of passing it on."""
    rounds = recalls.rounds
    if response.status != 200:
        return response, rounds.after_error(response.status)
    response, held = await _held(response)
    if held is None:
        return response, None
    encodings = [value.strip().lower() for name, value in response.headers if name.lower() == b"content-encoding"]
    text = _unpacked(held, encodings)
    answer = None if text is None else _parsed(text)
    if answer is None:
        return response, rounds.not_understood({}, recalls=text is None or RECALL.encode() in text)
    following = rounds.following(answer)
    return response if following is not None else _reckoned(response, recalls, answer), following


def _unpacked(held: bytes, encodings: list[bytes]) -> bytes | None:
    """Return the plain text of an answer; None if it cannot be determined."""
    try:
        return unpacked(held, encodings[0] if encodings else b"identity") if len(encodings) < 2 else None
    except zlib.error:
        return None


def _parsed(text: bytes) -> Any:
    """Return a parsed answer; None if the response is not one."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _written(following: Any, recalls: Recalls) -> bytes:
    """Return the bytes to send next: the original ones if the model's answer cannot be repeated, as half an emoji
    cannot."""
    if following is not recalls.rounds.original:
        try:
            return as_bytes(following)
        except (ValueError, RecursionError):
            recalls.rounds.give_up()
    return recalls.came


def _reckoned(response: UpstreamResponse, recalls: Recalls, answer: Any) -> UpstreamResponse:
    """Return the response with the usage of all answers; the very same response if there was only one, or if it cannot
    be rewritten."""
    whole = recalls.rounds.reckoned(answer)
    if whole is answer:
        return response
    try:
        body = as_bytes(whole)
    except (ValueError, RecursionError):
        return response
    recalls.told = True
    said_anew = (b"content-length", b"content-encoding")
    headers = [header for header in response.headers if header[0].lower() not in said_anew]
    length = (b"content-length", str(len(body)).encode())
    return response._replace(headers=[*headers, length], chunks=_joined([body]))
