"""A proxy on a port of this machine."""

from __future__ import annotations

import socket

import uvicorn

from drsr.errors import SettingsError
from drsr.proxy.app import ProxyApp

KEEP_ALIVE = 75
"""Seconds that an idle client's connection is kept: longer than clients keep theirs, so that they hang up first and
never send a request into a connection that is just being closed."""


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 takes any free one. SettingsError where that cannot be."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"cannot listen there: {said}", where=f"{host}:{port}", hint="choose another with --host and --port"
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """The URL to give to clients on this machine."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(app: ProxyApp, *, grace: int = 30) -> uvicorn.Server:
    """The server, to be run on a socket. At its end, requests on their way have `grace` seconds to finish."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
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
    return uvicorn.Server(config)
