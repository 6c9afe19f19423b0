"""HTTP by hand, for what no client library would send."""

from __future__ import annotations

import socket

from tests.proxy.running import PATIENCE, RunningProxy


def connect(proxy: RunningProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def ask(proxy: RunningProxy, request: bytes) -> bytes:
    """Send these bytes, and give back all that comes until the proxy hangs up."""
    with connect(proxy) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while piece := connection.recv(65_536):
        found += piece
    return found


def post(path: str, body: bytes, *headers: str) -> bytes:
    """The bytes of a request after which the connection is closed."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
