"""Connections that send too slowly, do not read, or are too many."""

from __future__ import annotations

import json
import socket

import httpx
import pytest

from tests.agent_runs import openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_http import ask, connect, post, read_all
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

CHAT = "/v1/chat/completions"


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65_536) == b""
    except ConnectionResetError:
        return True


def test_a_head_that_does_not_come_is_not_waited_for(start_proxy: StartProxy, http: httpx.Client) -> None:
    proxy = start_proxy(head_timeout=0.3)
    with connect(proxy) as silent, connect(proxy) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: local")
        assert is_closed(silent)
        assert is_closed(slow)
    with connect(proxy) as second:  # a request that is complete, and the next one that is not
        second.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += second.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        second.sendall(b"GET ")
        assert is_closed(second)
    assert http.get(f"{proxy.address}/healthz").status_code == 200


def test_a_body_must_come_at_some_speed(start_proxy: StartProxy, upstream: ScriptedUpstream) -> None:
    proxy = start_proxy(body_timeout=0.5)
    with connect(proxy) as connection:
        connection.sendall(post(CHAT, b"")[:-2].replace(b"content-length: 0", b"content-length: 999") + b"\r\n")
        connection.settimeout(0.1)
        answer = b""
        for _ in range(100):  # a byte every 100 ms is no silence, and not fast enough either
            try:
                connection.sendall(b" ")
                answer = connection.recv(65_536)
                break
            except TimeoutError:
                continue
    assert b"x-drsr-error: body_timeout" in answer


def test_a_client_that_does_not_read_is_cut_off(start_proxy: StartProxy, upstream: ScriptedUpstream) -> None:
    proxy = start_proxy(write_timeout=0.3)
    long = json.dumps(openai_body("alpha", 1)["messages"][:1] + [{"role": "user", "content": "x" * 8_000_000}])
    with connect(proxy) as connection:
        connection.sendall(post(CHAT, b'{"model": "echo", "messages": ' + long.encode() + b"}"))
        assert eventually(lambda: len(upstream.requests) == 1)
        assert eventually(lambda: proxy.count("gone") == 1)


def test_idle_connections_make_room_and_busy_ones_stay(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(max_connections=2)
    with connect(proxy) as busy, connect(proxy) as idle:
        busy.sendall(post(CHAT, json.dumps(openai_body("one", 2, model="silent")).encode()))
        assert eventually(lambda: len(upstream.requests) == 1)
        assert httpx.get(f"{proxy.address}/healthz", trust_env=False).status_code == 200  # a third
        assert is_closed(idle)
        with connect(proxy) as also_busy:
            also_busy.sendall(post(CHAT, json.dumps(openai_body("two", 2, model="silent")).encode()))
            assert eventually(lambda: len(upstream.requests) == 2)
            with connect(proxy) as refused:
                assert refused.recv(65_536).startswith(b"HTTP/1.1 503 ")
            upstream.gate.set()
            assert read_all(also_busy).startswith(b"HTTP/1.1 200 ")
        assert read_all(busy).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\nhost: localhost\n\n",
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\n",
    ],
)
def test_a_bare_line_feed_in_the_head_is_refused(proxy: RunningProxy, upstream: ScriptedUpstream, head: bytes) -> None:
    assert ask(proxy, head).startswith(b"HTTP/1.1 400 ")
    first = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert b"HTTP/1.1 400 " in ask(proxy, first + head)  # also behind a good one
    assert len(upstream.requests) == 1
