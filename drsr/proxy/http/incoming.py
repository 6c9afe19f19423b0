"""The client's side of one exchange: what it asks, its body, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope

from drsr.proxy.http.endpoints import endpoint_of
from drsr.proxy.http.headers import RawHeaders, values
from drsr.proxy.http.refusals import Refusal, RefusalKind

DRAINED = 256 * 1024 * 1024
"""Bytes of a request that is too large which are still taken and thrown away. Clients look for an answer only when they
have sent all; one whose connection is closed before sees a broken connection instead of the reason."""


class ClientGone(Exception):
    """The client closed its connection before it had sent its whole request."""


class BodyStalled(Exception):
    """The client stopped sending in the middle of its request."""


class Incoming:
    """One request as it comes in."""

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

    async def read(self, limit: int) -> bytes | Refusal:
        """The whole body, or a refusal of one with more than `limit` bytes, of which no more than these are held.

        Raises ClientGone or BodyStalled.
        """
        declared = values(self.headers, b"content-length")
        too_large = Refusal(
            RefusalKind.BODY_TOO_LARGE,
            f"the request has more than {limit:,} bytes; shorten it, or start the proxy with a larger --max-body-mb",
        )
        found, size = [], 0
        refused = bool(declared) and int(declared[0]) > limit
        async for piece in self.stream():
            size += len(piece)
            refused = refused or size > limit
            if not refused:
                found.append(piece)
            elif size > DRAINED:
                break
        return too_large if refused else b"".join(found)

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in the pieces in which it comes. Raises ClientGone or BodyStalled."""
        more = True
        while more:
            try:
                async with asyncio.timeout(self._timeout):
                    message: Any = await self._receive()
            except TimeoutError:
                raise BodyStalled(f"no byte of the request came for {self._timeout:g} s") from None
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
