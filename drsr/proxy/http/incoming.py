"""The client's side of one exchange: what it asks, its body, and whether it is still there."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, NamedTuple

from starlette.types import Receive, Scope

from drsr.proxy.http.endpoints import endpoint_of
from drsr.proxy.http.headers import RawHeaders, values
from drsr.proxy.reasons import ProxyReason

SLOWEST = 1024
"""Average number of bytes per second at which a body must arrive, after a first grace period."""


class ClientGone(Exception):
    """The client closed its connection before it had sent its whole request."""


class BodyStalled(Exception):
    """The client stopped sending in the middle of its request."""


class Unread(NamedTuple):
    """A body that is not held in memory as a whole: it is passed on as it arrives."""

    reason: ProxyReason
    pieces: AsyncIterator[bytes]
    """The whole body, including what was already read of it. Raises ClientGone or BodyStalled."""


class Incoming:
    """One incoming request."""

    def __init__(self, scope: Scope, receive: Receive, *, timeout: float) -> None:
        """`timeout` is how many seconds may pass without a byte of the body."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or b""
        self.query: bytes = scope["query_string"]
        self.headers: RawHeaders = list(scope["headers"])
        self.endpoint = endpoint_of(self.method, self.path)
        self._receive = receive
        self._timeout = timeout
        self._body_read = asyncio.Event()
        self._gone = asyncio.Event()

    @property
    def target(self) -> bytes:
        """Path and query, byte for byte."""
        return self.raw_path + (b"?" + self.query if self.query else b"")

    @property
    def has_body(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    async def read(self, limit: int, take: Callable[[int], bool]) -> bytes | Unread:
        """Read the whole body, unless it has more than `limit` bytes or `take` has no room for them.

        Raises ClientGone or BodyStalled.
        """
        declared = values(self.headers, b"content-length")
        rest = self.stream()
        if declared and int(declared[0]) > limit:
            return Unread(ProxyReason.TOO_LARGE, rest)
        found, size = [], 0
        async for piece in rest:
            found.append(piece)
            size += len(piece)
            if size > limit:
                return Unread(ProxyReason.TOO_LARGE, _chained(found, rest))
            if not take(len(piece)):
                return Unread(ProxyReason.BUSY, _chained(found, rest))
        return b"".join(found)

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body in the pieces in which it comes. Raises ClientGone or BodyStalled."""
        more, size, waited = True, 0, 0.0
        while more:
            start = time.monotonic()
            try:
                async with asyncio.timeout(min(self._timeout, self._timeout + size / SLOWEST - waited)):
                    message: Any = await self._receive()
            except TimeoutError:
                raise BodyStalled(
                    f"no byte of the request came for {self._timeout:g} s, or fewer than {SLOWEST} a second"
                ) from None
            waited += time.monotonic() - start
            size += len(message.get("body") or b"")
            if message["type"] == "http.disconnect":
                self._gone.set()
                raise ClientGone
            if message.get("body"):
                yield message["body"]
            more = message.get("more_body", False)
        self._body_read.set()

    async def gone(self) -> None:
        """Returns when the client has closed its connection, or has been answered."""
        waits = [asyncio.create_task(event.wait()) for event in (self._gone, self._body_read)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        while not self._gone.is_set():  # behind the body there is nothing to come but the end
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone.set()


async def _chained(read: Iterable[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for piece in read:
        yield piece
    async for piece in rest:
        yield piece


_UPWARDS = re.compile(r"(^|[/\\])\.\.([/\\;]|$)")
"""Some servers drop parameters, as in `..;x`, before they resolve a path, and some take `\\` for `/`."""


def is_path(target: bytes) -> bool:
    """Not so for another host's address as target, which could even hold a password."""
    return target.startswith(b"/")


def stays_below(target: bytes, path: str) -> bool:
    """Return whether a target, decoded to a path, stays below the upstream's path."""
    return is_path(target) and not _UPWARDS.search(path)
