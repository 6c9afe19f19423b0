"""A chat-completions endpoint on loopback, over real HTTP, that answers by a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]


class Reply(NamedTuple):
    body: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Asked(NamedTuple):
    path: str
    authorization: str | None
    body: Json


class Served:
    """What an endpoint was asked, and how long it was left alone between; it answers by a list, the last for ever."""

    def __init__(self, *replies: Reply) -> None:
        self.asked: list[Asked] = []
        self.pauses: list[float] = []
        self._replies = list(replies)

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def completion(message: Json, prompt_tokens: int, completion_tokens: int, **details: int) -> Json:
    """A chat completion as an endpoint gives it, with fields that nobody needs."""
    usage: Json = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": 0}
    usage["prompt_tokens_details"] = details
    choice = {"index": 0, "message": {"refusal": None, "annotations": [], **message}, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


@contextmanager
def loopback_endpoint(reply: Callable[[Asked], Reply]) -> Iterator[str]:
    """Its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = reply(Asked(self.path, self.headers.get("authorization"), body))
            data = json.dumps(found.body).encode()
            self.send_response(found.status)
            for name, value in found.headers:
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
