"""A double of slow storage: a real S3 server behind a proxy on this machine that lets every request wait first."""

from __future__ import annotations

import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "keep-alive"}


def kind(method: str, path: str) -> str:
    """Return what a request is for: `list`, or a method and the folder of the bucket: `GET runs`, `PUT store`."""
    place, _, query = path.partition("?")
    folder = place.strip("/").split("/")[1:2]
    return "list" if "list-type" in query else f"{method} {' '.join(folder)}".strip()


class SlowStorageDouble:
    """The proxy. It counts what is asked, and how much of it at the same time."""

    def __init__(self, behind: str, delay: float) -> None:
        self.delay = delay
        self.calls: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._behind = urlsplit(behind)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def taken(self) -> list[str]:
        """Return the calls since the last time, and begin to count anew."""
        with self._lock:
            calls, self.calls = self.calls, []
            self.most_at_once = 0
        return calls

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        storage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                with storage._lock:
                    storage.calls.append(kind(self.command, self.path))
                    storage._at_once += 1
                    storage.most_at_once = max(storage.most_at_once, storage._at_once)
                time.sleep(storage.delay)
                try:
                    self._answer()
                finally:
                    with storage._lock:
                        storage._at_once -= 1

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                connection = http.client.HTTPConnection(
                    storage._behind.hostname or "", storage._behind.port, timeout=60
                )
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                answer = connection.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _NOT_PASSED_ON:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(data)
                connection.close()

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: the requests are in `calls`."""

        return Handler
