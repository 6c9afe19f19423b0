"""A host of public files on loopback, over real HTTP, that can be told to answer as badly as real ones do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = Callable[["Connection", bytes], None]
"""Called instead of the usual answer, with the bytes that it would have had."""


class PublicHost:
    """Files by path, and answers that take the place of the next usual ones for a path."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self._answers: dict[str, list[Answer]] = {}

    def instead(self, path: str, *answers: Answer) -> None:
        """Give these answers, one after another, before the usual one."""
        self._answers.setdefault(path, []).extend(answers)

    def always(self, path: str, answer: Answer) -> None:
        self.instead(path, *[answer] * 1000)

    def answer(self, connection: Connection) -> None:
        path = unquote(connection.path).lstrip("/")
        self.asked.append(path)
        waiting = self._answers.get(path)
        if waiting:
            waiting.pop(0)(connection, self.files.get(path, b""))
        elif path in self.files:
            connection.send(200, self.files[path])
        else:
            connection.send(404, b"404: Not Found")


class Connection(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    host: PublicHost

    def do_GET(self) -> None:
        self.host.answer(self)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


def redirect(location: str) -> Answer:
    return lambda connection, body: connection.send(302, b"", Location=location)


def status(code: int, **headers: str) -> Answer:
    return lambda connection, body: connection.send(code, b"no", **headers)


def other_bytes(data: bytes) -> Answer:
    return lambda connection, body: connection.send(200, data)


def cut(connection: Connection, body: bytes) -> None:
    """Half of the body, then the connection is closed."""
    connection.send(200, body[: len(body) // 2], Content_Length=str(len(body)))
    connection.close_connection = True


def silent(connection: Connection, body: bytes) -> None:
    """Closed without an answer."""
    connection.close_connection = True


def hang(released: threading.Event) -> Answer:
    """Half of the body, and the rest once it is released."""

    def answer(connection: Connection, body: bytes) -> None:
        half = len(body) // 2
        connection.send(200, body[:half], Content_Length=str(len(body)))
        connection.wfile.flush()
        released.wait(60)
        connection.close_connection = True

    return answer


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is none of its business; anything else fails the test that waits for an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def public_host() -> Iterator[PublicHost]:
    host = PublicHost()
    handler = type("BoundConnection", (Connection,), {"host": host})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        host.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
