"""Requests in a WebSocket of the Responses API: real clients, a real server, and what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import Server, ServerConnection, serve

from drsr.decide.decision import Reason
from drsr.proxy.reasons import PRUNED, ProxyReason
from drsr.sessions.price_table import bundled_prices
from tests.adapters.items import check_items
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.test_responses import responses_body

BODY = {**responses_body(), "model": "gpt-5"}
ITEMS: list[Any] = BODY["input"]


class Upstream:
    """Answers each request with its events, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.extensions: list[str | None] = []
        self.refuses = False

    def __call__(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.extensions.append(connection.request.headers.get("sec-websocket-extensions"))
        for message in connection:
            event = json.loads(message)
            self.asked.append(event)
            if event.get("type") == "response.create":
                for answer in self._answers(event):
                    connection.send(json.dumps(answer))

    def _answers(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        stream = {"stream_id": event["stream_id"]} if "stream_id" in event else {}
        if self.refuses:
            yield {"type": "error", "status": 400, "error": {"code": "bad", "message": "no"}, **stream}
            return
        response = {"id": f"resp_{len(self.asked)}", "object": "response", "status": "completed", "output": []}
        usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 7}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}, **stream}
        yield {"type": "response.completed", "response": {**response, "usage": usage}, **stream}


@pytest.fixture
def speaking() -> Iterator[tuple[Upstream, str]]:
    upstream = Upstream()
    with serve(upstream, "127.0.0.1", 0, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield upstream, f"http://127.0.0.1:{_port(server)}"
        server.shutdown()
        thread.join()


def _port(server: Server) -> int:
    port: int = server.socket.getsockname()[1]
    return port


Opens = Callable[..., tuple[RunningProxy, ClientConnection]]


@pytest.fixture
def opens(speaking: tuple[Upstream, str], start_proxy: StartProxy) -> Iterator[Opens]:
    """A proxy with the settings given, and a client that is connected through it."""
    sockets: list[ClientConnection] = []

    def start(headers: dict[str, str] | None = None, **settings: Any) -> tuple[RunningProxy, ClientConnection]:
        proxy = start_proxy(upstream=speaking[1], **settings)
        url = f"ws://127.0.0.1:{proxy.port}/v1/responses"
        sockets.append(connect(url, additional_headers=headers, proxy=None, max_size=None))
        return proxy, sockets[-1]

    yield start
    for socket in sockets:
        socket.close()


def ask(socket: ClientConnection, **body: Any) -> list[dict[str, Any]]:
    """Send a request; returns the events up to the end of its answer."""
    socket.send(json.dumps({"type": "response.create", **BODY, **body}))
    events = [json.loads(socket.recv())]
    while events[-1]["type"] not in ("response.completed", "error"):
        events.append(json.loads(socket.recv()))
    return events


def recent(proxy: RunningProxy, number: int) -> list[dict[str, Any]]:
    """The newest exchanges, once there are so many, oldest first."""
    assert eventually(lambda: len(proxy.app.activity.recent) >= number)
    found: list[dict[str, Any]] = [exchange.to_json() for exchange in proxy.app.activity.recent]
    return found


def test_a_whole_history_is_pruned_and_its_answer_counted(opens: Opens, speaking: tuple[Upstream, str]) -> None:
    proxy, socket = opens(prices=bundled_prices())
    events = ask(socket)
    assert [event["type"] for event in events] == ["response.created", "response.completed"]
    asked = speaking[0].asked[0]
    assert asked["type"] == "response.create"
    assert {**asked, "input": ITEMS} == {"type": "response.create", **BODY}
    assert len(asked["input"]) < len(ITEMS)
    check_items(asked["input"], ITEMS)
    assert speaking[0].extensions == [None]
    (found,) = recent(proxy, 1)
    assert (found["method"], found["path"], found["status"]) == ("WEBSOCKET", "/v1/responses", 200)
    assert (found["reason"], found["ending"]) == (PRUNED, "completed")
    assert found["usage"] == {"input": 60, "cached": 40, "cache_creation": 0, "output": 7}
    assert found["bill"]["without_pruning"] > found["bill"]["paid"] > 0
    assert found["tokens_saved"] > 0
    assert proxy.app.activity.to_json()["tokens_saved"] == found["tokens_saved"]


def test_what_only_goes_on_passes_as_it_is(opens: Opens, speaking: tuple[Upstream, str]) -> None:
    proxy, socket = opens()
    more = {"previous_response_id": "resp_1", "input": ITEMS[-2:]}
    ask(socket)
    ask(socket, **more)
    socket.send(json.dumps({"type": "response.steer", "note": "response.create"}))
    socket.send('{"type": "response.create", broken')
    assert eventually(lambda: len(speaking[0].asked) == 3)
    assert speaking[0].asked[1] == {"type": "response.create", **BODY, **more}
    assert [found["reason"] for found in recent(proxy, 2)] == [PRUNED, ProxyReason.HISTORY_UPSTREAM]


def test_streams_are_told_apart(opens: Opens) -> None:
    proxy, socket = opens()
    ask(socket, stream_id="a")
    ask(socket, stream_id="b", input=[{"role": "user", "content": "hello"}])
    assert [found["reason"] for found in recent(proxy, 2)] == [PRUNED, Reason.TOO_FEW_CANDIDATES]
    assert [found["status"] for found in recent(proxy, 2)] == [200, 200]


def test_what_the_upstream_refuses_saved_nothing(opens: Opens, speaking: tuple[Upstream, str]) -> None:
    speaking[0].refuses = True
    proxy, socket = opens()
    ask(socket)
    (found,) = recent(proxy, 1)
    assert (found["status"], found["reason"], found["tokens_saved"]) == (400, PRUNED, 0)
    assert proxy.app.activity.to_json()["tokens_saved"] == 0


@pytest.mark.parametrize(
    ("headers", "settings", "reason"),
    [
        ({"x-drsr-mode": "off"}, {}, ProxyReason.BYPASS),
        ({}, {"shadow": True}, ProxyReason.SHADOW),
        ({}, {"max_body": 1000}, None),
        ({}, {"memory": 1000}, None),
    ],
    ids=["off", "shadow", "too large", "no memory"],
)
def test_nothing_is_changed(
    opens: Opens,
    speaking: tuple[Upstream, str],
    headers: dict[str, str],
    settings: dict[str, Any],
    reason: ProxyReason | None,
) -> None:
    proxy, socket = opens(headers, **settings)
    ask(socket)
    assert speaking[0].asked == [{"type": "response.create", **BODY}]
    if reason is not None:
        (found,) = recent(proxy, 1)
        assert found["reason"] == reason
        assert (found["shadow_saved"] > 0) is (reason is ProxyReason.SHADOW)
    assert proxy.app.parts is not None
    assert proxy.app.parts.budget.taken == 0


def test_recalls_are_not_offered_where_they_cannot_be_answered(opens: Opens, speaking: tuple[Upstream, str]) -> None:
    _, socket = opens(recall=True)
    ask(socket)
    assert speaking[0].asked[0]["tools"] == BODY["tools"]
    assert len(speaking[0].asked[0]["input"]) < len(ITEMS)


def test_a_client_that_leaves_before_its_answer(speaking: tuple[Upstream, str], opens: Opens) -> None:
    speaking[0]._answers = lambda event: iter(())  # type: ignore[method-assign]
    proxy, socket = opens()
    socket.send(json.dumps({"type": "response.create", **BODY}))
    assert eventually(lambda: len(speaking[0].asked) == 1)
    socket.close()
    (found,) = recent(proxy, 1)
    assert (found["ending"], found["status"], found["tokens_saved"] > 0) == ("client_gone", None, True)
    assert proxy.app.activity.to_json()["tokens_saved"] == 0


def test_a_failing_decision_leaves_the_request_as_it_came(
    opens: Opens, speaking: tuple[Upstream, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    _, socket = opens()
    monkeypatch.setattr("drsr.proxy.pruning.Pruning.treat", fails)
    ask(socket)
    assert speaking[0].asked == [{"type": "response.create", **BODY}]


def test_the_openai_sdk(speaking: tuple[Upstream, str], start_proxy: StartProxy) -> None:
    proxy = start_proxy(upstream=speaking[1])
    client = OpenAI(base_url=f"{proxy.address}/v1", api_key="k")
    with client.responses.connect() as connection:
        connection.response.create(**BODY)
        for event in connection:
            if event.type == "response.completed":
                break
    assert len(speaking[0].asked[0]["input"]) < len(ITEMS)
