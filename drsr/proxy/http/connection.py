"""One client's connection, with bounds that no client can move: on its head, on unread answers, on how many there are.

The server has the protocol from uvicorn, which waits for ever for the rest of a head and for a client that reads.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from drsr.proxy.http.incoming import stays_below
from drsr.proxy.websockets.tunnel import PIECE, Client, Tunnels

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"


class ConnectionLimits(NamedTuple):
    """The bounds of every connection."""

    connections: int
    """Maximum number of open connections. Beyond it the connection that has been idle longest is closed; if none is
    idle, the new one."""
    head_seconds: float
    """From the connection, or a request's first byte, to the end of its head."""
    write_seconds: float
    """Until a client has read what was held back for it."""


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, in bounded time."""

    def __init__(self, *arguments: Any, limits: ConnectionLimits, tunnels: Tunnels, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._tunnels = tunnels
        self._tunnelled: asyncio.StreamReader | None = None
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._idle_since = time.monotonic()
        self._leaving = False

    @property
    def idle(self) -> bool:
        """Return whether no request is on its way."""
        return not self._leaving and self._tunnelled is None and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections and not self._make_room():
            self._leaving = True
            transport.write(_FULL)
            transport.close()
            return
        self._head = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting_for_head()
        self._stop_waiting_for_reader()
        if self._tunnelled is not None:
            self._tunnelled.feed_eof()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._tunnelled is not None:
            self._tunnelled.feed_data(data)
            return
        super().data_received(data)
        if not self.idle:
            self._stop_waiting_for_head()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self._limits.head_seconds, self._give_up)

    def handle_events(self) -> None:
        """Refuse a head whose lines end in a bare LF: different servers read it differently, so it must not be passed
        on."""
        if self.conn.their_state is h11.IDLE:
            waiting = bytes(self.conn.trailing_data[0])
            end = _END_OF_HEAD.search(waiting)
            if _BARE_LINE_FEED.search(waiting[: end.end()] if end else waiting):
                self.send_400_response("Invalid HTTP request received.")
                return
        super().handle_events()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is a tunnel."""
        raw_path = self.scope["raw_path"]
        if not self._tunnels.allows(self.headers) or not stays_below(raw_path, self.scope["path"]):
            self.send_400_response("This WebSocket is not passed on.")
            return
        self._tunnelled = asyncio.StreamReader(limit=PIECE, loop=self.loop)
        self._tunnelled.set_transport(self.transport)
        self._tunnelled.feed_data(self.conn.trailing_data[0])
        client = Client(self._tunnelled, self.transport, self.flow.drain)
        task = self.loop.create_task(self._tunnels.carry(client, event.target, dict(self.scope)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def shutdown(self) -> None:
        if self._tunnelled is None:
            super().shutdown()
        else:
            self.transport.close()

    def _should_upgrade_to_ws(self) -> bool:
        return True

    def on_response_complete(self) -> None:
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self._limits.write_seconds, self._give_up)

    def resume_writing(self) -> None:
        self._stop_waiting_for_reader()
        super().resume_writing()

    def _give_up(self) -> None:
        self._leaving = True
        self.transport.abort()

    def _make_room(self) -> bool:
        idle = [each for each in self.connections if isinstance(each, Connection) and each is not self and each.idle]
        if idle:
            min(idle, key=lambda each: each._idle_since)._give_up()
        return bool(idle)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
