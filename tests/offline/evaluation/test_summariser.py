"""Summarisers: the endpoint over real HTTP, and the double."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SummariserFailed
from drsr.offline.evaluation.scripted_summariser import ScriptedSummariser
from drsr.offline.evaluation.summariser import Ask, Completion, EndpointSummariser

ASK = Ask("summary", "Be short.", "assistant: I opened order #W12.\n\nresult: paid 12.50 by card_7", 64)


class Endpoint(BaseHTTPRequestHandler):
    """Answers as it was told, and keeps what it was asked."""

    status = 200
    answer: Any = None
    seen: tuple[str, Any, Any] | None = None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        Endpoint.seen = (self.path, self.headers.get("authorization"), json.loads(body))
        data = json.dumps(self.answer).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        return


@pytest.fixture
def base_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_endpoint(base_url: str) -> None:
    Endpoint.status, Endpoint.answer = (
        200,
        {
            "choices": [{"message": {"role": "assistant", "content": "Order #W12 is paid."}}],
            "usage": {"prompt_tokens": 41, "completion_tokens": 7},
        },
    )
    summariser = EndpointSummariser(base_url, "small", api_key="secret")
    assert summariser.complete(ASK) == Completion("Order #W12 is paid.", 41, 7)
    summariser.close()
    assert Endpoint.seen is not None
    path, authorization, body = Endpoint.seen
    assert (path, authorization) == ("/v1/chat/completions", "Bearer secret")
    assert body["messages"] == [
        {"role": "system", "content": ASK.instructions},
        {"role": "user", "content": ASK.material},
    ]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("small", 64, 0)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (500, {"error": "x"}, "status 500"),
        (200, {"choices": [{"message": {"content": "text"}}]}, "token counts"),
        (200, {"choices": [{"message": {"content": None}}], "usage": {}}, "without a text"),
        (200, {"choices": []}, "without a text"),
    ],
)
def test_endpoint_without_a_usable_answer(base_url: str, status: int, answer: Any, said: str) -> None:
    Endpoint.status, Endpoint.answer = status, answer
    summariser = EndpointSummariser(base_url, "small")
    with pytest.raises(SummariserFailed, match=said):
        summariser.complete(ASK)
    summariser.close()


def test_endpoint_that_is_not_there() -> None:
    summariser = EndpointSummariser("http://127.0.0.1:9", "small", timeout=2.0)
    with pytest.raises(SummariserFailed, match="no answer"):
        summariser.complete(ASK)
    summariser.close()


def test_the_double_copies_names_and_numbers_and_counts() -> None:
    tokenizer = ScriptedTokenizer()
    first = ScriptedSummariser(tokenizer).complete(ASK)
    assert first == ScriptedSummariser(ScriptedTokenizer()).complete(ASK)
    assert "#W12" in first.text
    assert "card_7" in first.text
    ids = tokenizer.encode_contents([ASK.instructions, ASK.material, first.text])
    assert first.input_tokens == len(ids[0]) + len(ids[1])
    assert first.output_tokens == len(ids[2]) <= ASK.max_tokens


def test_the_double_keeps_to_the_length_allowed() -> None:
    long = ASK._replace(material="\n\n".join(f"result: item_{number} costs {number}" for number in range(400)))
    assert ScriptedSummariser(ScriptedTokenizer()).complete(long).output_tokens <= 64
