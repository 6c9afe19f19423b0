"""WebSockets, passed on byte for byte in both directions; the requests in those of the Responses API are pruned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import httpx
from starlette.types import Scope

from drsr.proxy.http.forwarding import Parts
from drsr.proxy.http.headers import RawHeaders, to_upstream
from drsr.proxy.http.sites import Sites
from drsr.proxy.settings import DEFAULT_PORTS, UpstreamUrl
from drsr.proxy.websockets.responses import ResponsesSocket

PIECE = 64 * 1024
LARGEST_HEAD = 64 * 1024
LAST_SECONDS = 5.0
"""Seconds to wait for the rest of an answer that does not open a WebSocket."""

_log = logging.getLogger("drsr.proxy")


class Client(NamedTuple):
    """The client's end."""

    reader: asyncio.StreamReader
    transport: asyncio.Transport
    drain: Callable[[], Awaitable[None]]
    """Waits until the client has read enough of what it was sent."""

    async def send_all(self, reader: asyncio.StreamReader, responses: ResponsesSocket | None = None) -> None:
        """Pass on what the upstream sends, to its end."""
        while piece := await reader.read(PIECE):
            self.transport.write(piece)
            if responses is not None:
                responses.downwards(piece)
            await self.drain()


class Tunnels:
    """To one upstream, which is fixed like that of every other request."""

    def __init__(
        self,
        url: UpstreamUrl,
        sites: Sites,
        *,
        connect_timeout: float,
        timeout: float,
        count: Callable[[], None],
        parts: Callable[[], Parts],
    ) -> None:
        """`count` is called for each WebSocket that the upstream opens; `parts` are those of the running proxy."""
        self._count = count
        self._parts = parts
        self._url = url
        self._sites = sites
        self._connect_timeout = connect_timeout
        self._timeout = timeout

    def allows(self, headers: RawHeaders) -> bool:
        return self._sites.refusal(headers) is None

    async def carry(self, client: Client, target: bytes, scope: Scope) -> None:
        """Open a connection to the upstream, and pass everything on until either side closes its own. Never raises."""
        headers = list(scope["headers"])
        responses = ResponsesSocket(self._parts(), scope) if ResponsesSocket.is_one(scope["path"]) else None
        if responses is not None:  # what is compressed cannot be read
            headers = [(name, value) for name, value in headers if name != b"sec-websocket-extensions"]
        try:
            async with asyncio.timeout(self._connect_timeout):
                reader, writer = await self._connect()
        except (OSError, TimeoutError):
            client.transport.write(_UNREACHABLE)
            client.transport.close()
            return
        try:
            writer.write(self._head(target, headers))
            async with asyncio.timeout(self._timeout):
                head = await reader.readuntil(b"\r\n\r\n")
            opened = head.split(b" ", 2)[1:2] == [b"101"]
            if opened:
                self._count()
            client.transport.write(head)
            if opened:
                await _both_ways(client, reader, writer, responses)
            else:  # what follows is the upstream's refusal, and the client has nothing more to say to it
                async with asyncio.timeout(LAST_SECONDS):
                    await client.send_all(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.warning("a WebSocket broke off: %s", type(error).__name__)
        finally:
            writer.close()
            client.transport.close()
            if responses is not None:
                await responses.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        secure = httpx.create_ssl_context() if self._url.scheme == "https" else None
        return await asyncio.open_connection(self._url.host, self._url.port, ssl=secure, limit=LARGEST_HEAD)

    def _head(self, target: bytes, headers: RawHeaders) -> bytes:
        host = f"[{self._url.host}]" if ":" in self._url.host else self._url.host
        port = "" if self._url.port == DEFAULT_PORTS[self._url.scheme] else f":{self._url.port}"
        said = [(b"host", f"{host}{port}".encode()), (b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
        lines = [name + b": " + value for name, value in (*said, *to_upstream(headers, new_length=True))]
        return b"\r\n".join([b"GET " + self._url.prefix.encode() + target + b" HTTP/1.1", *lines, b"", b""])


_UNREACHABLE = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


async def _both_ways(
    client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, responses: ResponsesSocket | None
) -> None:
    async def upwards() -> None:
        while piece := await client.reader.read(PIECE):
            if responses is None:
                writer.write(piece)
            else:
                async for frame in responses.upwards(piece):
                    writer.write(frame)
            await writer.drain()

    ways = [asyncio.create_task(upwards()), asyncio.create_task(client.send_all(reader, responses))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
