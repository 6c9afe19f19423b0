"""A proxy on a port of this machine."""

from __future__ import annotations

import os
import signal
import socket
import threading
from functools import partial
from types import FrameType

import uvicorn

from drsr.errors import SettingsError
from drsr.proxy.app import ProxyApp
from drsr.proxy.http.connection import Connection, ConnectionLimits
from drsr.proxy.settings import UpstreamUrl

KEEP_ALIVE = 75
"""Seconds that an idle client's connection is kept: longer than clients keep theirs, so that they hang up first and
never send a request into a connection that is just being closed."""

LAST_SECONDS = 2.5
"""Seconds that a proxy asked twice to end may still take, whatever holds it up: a model in the middle of a matrix
product cannot be interrupted."""

SPARE_FILES = 128
"""Open files needed in addition to the connections: libraries, receipts, the policy."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 takes any free one. Raise SettingsError if that is not possible."""
    if not 0 <= port < 1 << 16:
        raise SettingsError("must be from 0 to 65535", where="--port")
    bound = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise SettingsError(
            f"cannot listen there: {error.strerror}",
            where=f"{host}:{port}",
            hint="choose others with --host and --port",
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the URL to give to clients on this machine."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def leads_here(upstream: UpstreamUrl, bound: socket.socket) -> bool:
    """Return whether a proxy on this socket would be its own upstream, and every request go round and round."""
    host, port = bound.getsockname()[:2]
    if upstream.port != port:
        return False
    own = {"127.0.0.1", "::1"} if host in ("0.0.0.0", "::") else {host}
    try:
        found = socket.getaddrinfo(upstream.host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(address[0] in own | {host} for *_, address in found)


def connections_possible(wanted: int) -> int:
    """Allow this process as many open files as the system grants; return the number of connections that they suffice
    for.

    A request may need two, one of them to the upstream, and the rest of the process needs some.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 2 * wanted + SPARE_FILES
    if most != resource.RLIM_INFINITY:
        files = min(files, most)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return min(wanted, max((files - SPARE_FILES) // 2, 1))


class ProxyServer(uvicorn.Server):
    """A server that ends soon when asked to: decisions are given up, and their requests go through unchanged."""

    def __init__(self, config: uvicorn.Config, app: ProxyApp) -> None:
        super().__init__(config)
        self._proxy = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._proxy.give_up_decisions()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first lets running requests finish, the second does not."""
        if self.should_exit:
            self.force_exit = True
            end = threading.Timer(LAST_SECONDS, os._exit, (128 + signal.Signals(sig),))
            end.daemon = True
            end.start()
        super().handle_exit(sig, frame)


def make_server(app: ProxyApp, *, grace: int = 30) -> uvicorn.Server:
    """Return the server, to be run on a socket. At its end, answers on their way have `grace` seconds to finish."""
    settings = app.settings
    limits = ConnectionLimits(settings.max_connections, settings.head_timeout, settings.write_timeout)
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=partial(Connection, limits=limits, tunnels=app.tunnels),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would log queries, in which some clients send their keys
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=grace,
    )
    return ProxyServer(config, app)
