"""Streams pass through unbuffered, and whoever hangs up is not waited for."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from drsr.proxy.http.exchange import Ending
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_http import ask, connect, post
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
STREAMED = [(CHAT, openai_body(model="gated", stream=True)), (MESSAGES, anthropic_body(model="gated", stream=True))]


@pytest.mark.parametrize(("path", "body"), STREAMED)
def test_the_first_piece_arrives_before_the_upstream_sends_the_last(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    """The upstream sends the rest only once the test has the first piece: a proxy that buffers would wait for ever."""
    with http.stream("POST", f"{proxy.address}{path}", json=body) as answer:
        assert answer.headers["x-drsr-reason"] == "pruned"
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = b""
        pieces = answer.iter_raw()
        while b'"al"' not in found:
            found += next(pieces)
        assert b'"pha"' not in found
        assert not upstream.gate.is_set()
        upstream.gate.set()
        found += b"".join(pieces)
    assert b'"pha"' in found
    assert found.rstrip().endswith((b"data: [DONE]", b'data: {"type": "message_stop"}'))


def test_a_streamed_upload_is_not_held_back(
    proxy: RunningProxy, upstream: ScriptedUpstream, start_proxy: StartProxy, http: httpx.Client
) -> None:
    """Larger than what may be pruned, to a path that is not: its size has no bound."""
    small = start_proxy(max_body=1_000)
    content = b"0123456789" * 50_000
    pieces = (content[start : start + 10_000] for start in range(0, len(content), 10_000))
    assert http.post(f"{small.address}/v1/files", content=pieces).json()["size"] == len(content)
    assert upstream.latest().body == content


@pytest.mark.parametrize("model", ["gated", "silent"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/messages?bypassed"])
def test_a_client_that_hangs_up_cancels_the_upstream(
    proxy: RunningProxy, upstream: ScriptedUpstream, model: str, path: str
) -> None:
    before = proxy.count("gone")
    make = openai_body if path == CHAT else anthropic_body
    content = json.dumps(make(model=model, stream=True)).encode()
    headers = ["x-drsr-bypass: 1"] if "bypassed" in path else []
    with connect(proxy) as connection:
        connection.sendall(post(path, content, *headers))
        assert eventually(lambda: len(upstream.requests) == 1)
        if model == "gated":
            assert b"200" in connection.recv(64)
    assert eventually(upstream.hung_up.is_set)
    assert not upstream.gate.is_set()
    assert eventually(lambda: proxy.count("gone") == before + 1)
    assert proxy.app.activity.recent[-1].ending is Ending.CLIENT_GONE
    assert eventually(lambda: proxy.parts.admission.inside == 0)


def test_a_client_that_hangs_up_inside_its_request_is_forgotten(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    before = proxy.count("gone")
    for path in (CHAT, "/v1/files"):
        with connect(proxy) as connection:
            connection.sendall(post(path, b"x" * 1_000)[:-500])
    assert eventually(lambda: proxy.count("gone") == before + 2)
    assert [request for request in upstream.requests if request.target == CHAT] == []


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_stream_that_breaks_is_not_taken_for_a_whole_one(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str
) -> None:
    before = proxy.count("broken")
    make = openai_body if path == CHAT else anthropic_body
    body = make(model="broken", stream=True)
    with http.stream("POST", f"{proxy.address}{path}", json=body) as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    assert eventually(lambda: proxy.count("broken") == before + 1)
    assert proxy.app.activity.recent[-1].ending is Ending.UPSTREAM_BROKE


def test_openais_client_sees_the_break(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0) as client:
        stream = client.chat.completions.create(**openai_body(model="broken", stream=True))
        assert [next(stream).choices[0].delta.content for _ in range(2)] == [None, "al"]
        with pytest.raises(openai.APIConnectionError):
            next(stream)


def test_an_upstream_that_hangs_up_without_a_word_is_a_502(start_proxy: StartProxy, http: httpx.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = start_proxy(upstream=f"http://127.0.0.1:{listening.getsockname()[1]}")
        with ThreadPoolExecutor(1) as threads:
            threads.submit(lambda: listening.accept()[0].close())
            answer = http.post(f"{proxy.address}{CHAT}", json=openai_body())
    assert answer.status_code == 502
    assert "broke" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "kind"), [(CHAT, "server_error"), (MESSAGES, "api_error"), ("/v1/models", "server_error")]
)
def test_a_refused_connection_is_a_502(start_proxy: StartProxy, http: httpx.Client, path: str, kind: str) -> None:
    proxy = start_proxy(upstream="http://127.0.0.1:1")
    body = anthropic_body() if path == MESSAGES else openai_body()
    answer = http.post(f"{proxy.address}{path}", json=body)
    assert answer.status_code == 502
    assert answer.headers["x-drsr-error"] == "upstream_unreachable"
    assert answer.json()["error"]["type"] == kind
    assert "http://127.0.0.1:1 cannot be reached" in answer.json()["error"]["message"]
    assert eventually(lambda: proxy.count("refusals", "upstream_unreachable") == 1)
    assert proxy.count("saved") == 0  # nothing was sent


@pytest.mark.parametrize(("path", "kind"), [(CHAT, "server_error"), (MESSAGES, "timeout_error")])
def test_a_silent_upstream_is_a_504(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str, kind: str
) -> None:
    proxy = start_proxy(upstream_timeout=0.2)
    make = openai_body if path == CHAT else anthropic_body
    answer = http.post(f"{proxy.address}{path}", json=make(model="silent"))
    assert answer.status_code == 504
    assert answer.headers["x-drsr-error"] == "upstream_timeout"
    assert answer.json()["error"]["type"] == kind
    assert eventually(upstream.hung_up.is_set)


def test_a_client_that_stops_in_the_middle_of_its_request(start_proxy: StartProxy) -> None:
    proxy = start_proxy(body_timeout=0.2)
    for path in (CHAT, "/v1/files"):
        answer = ask(proxy, post(path, b"x" * 1_000)[:-500])
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert b"x-drsr-error: body_timeout" in answer
