"""WebSockets through the proxy, with a real client and a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import Server, ServerConnection, serve

from drsr.proxy.http.exchange import Ending
from drsr.proxy.reasons import ProxyReason
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually


def answered(connection: ServerConnection) -> None:
    """Says what it was asked, and by whom."""
    assert connection.request is not None
    headers = connection.request.headers
    for message in connection:
        about = [connection.request.path, headers["host"], headers.get("authorization"), headers.get("x-drsr-mode")]
        connection.send(json.dumps([*about, message if isinstance(message, str) else len(message)]))


@pytest.fixture
def speaking() -> Iterator[Server]:
    import threading

    with serve(answered, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tunnelling(speaking: Server, start_proxy: StartProxy) -> RunningProxy:
    return start_proxy(upstream=f"http://127.0.0.1:{speaking.socket.getsockname()[1]}/base")


def test_both_sides_are_heard(tunnelling: RunningProxy, speaking: Server) -> None:
    url = f"ws://127.0.0.1:{tunnelling.port}/v1/responses?a=b"
    headers = {"authorization": "Bearer k", "x-drsr-mode": "off"}
    with connect(url, additional_headers=headers, proxy=None) as socket:
        socket.send('{"type": "response.create"}')
        port = speaking.socket.getsockname()[1]
        said = ["/base/v1/responses?a=b", f"127.0.0.1:{port}", "Bearer k", None, '{"type": "response.create"}']
        assert json.loads(socket.recv()) == said
        socket.send(b"x" * 900_000)
        assert json.loads(socket.recv())[-1] == 900_000
    assert tunnelling.app.activity.to_json()["websockets"] == 1
    assert eventually(lambda: bool(tunnelling.app.activity.recent))
    (asked,) = tunnelling.app.activity.recent
    assert (asked.reason, asked.ending) == (ProxyReason.BYPASS, Ending.CLIENT_GONE)


@pytest.mark.parametrize(
    "url", ["ws://127.0.0.1:{port}/v1/../x", "ws://127.0.0.1:{port}/v1/%2e%2e;/x"], ids=["plain", "odd"]
)
def test_targets_elsewhere_are_refused(tunnelling: RunningProxy, url: str) -> None:
    with pytest.raises(InvalidStatus, match="400"), connect(url.format(port=tunnelling.port), proxy=None):
        pass


def test_other_sites_are_refused(tunnelling: RunningProxy) -> None:
    url = f"ws://127.0.0.1:{tunnelling.port}/v1/responses"
    with pytest.raises(InvalidStatus, match="400"), connect(url, origin="https://evil.example", proxy=None):  # type: ignore[arg-type]
        pass


def test_an_upstream_that_refuses_or_is_not_there(proxy: RunningProxy, start_proxy: StartProxy) -> None:
    with pytest.raises(InvalidStatus, match="HTTP 200"), connect(f"ws://127.0.0.1:{proxy.port}/v1/x", proxy=None):
        pass  # the double speaks no WebSocket
    down = start_proxy(upstream="http://127.0.0.1:1")
    with pytest.raises(InvalidStatus, match="502"), connect(f"ws://127.0.0.1:{down.port}/v1/x", proxy=None):
        pass
    assert down.app.activity.to_json()["websockets"] == 0
