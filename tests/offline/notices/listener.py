"""A local HTTP server that keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Listener(NamedTuple):
    url: str
    heard: list[Any]
    """The JSON bodies, in order."""
    authorized: list[str]
    """What came as authorization."""


@contextmanager
def listening(code: int = 200, location: str | None = None) -> Iterator[Listener]:
    """Answer every POST with this code; `location` is where a redirect leads."""
    heard: list[Any] = []
    authorized: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            authorized.extend(self.headers.get_all("Authorization", []))
            self.send_response(code)
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Listener(f"http://127.0.0.1:{server.server_port}", heard, authorized)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
