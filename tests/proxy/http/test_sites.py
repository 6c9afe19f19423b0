"""Which hosts and sites are refused: whatever could be a page of somebody else's in a browser."""

from __future__ import annotations

import httpx
import pytest

from drsr.proxy.http.refusals import RefusalKind
from drsr.proxy.http.sites import Sites
from tests.proxy.running import RunningProxy
from tests.proxy.scripted_upstream import ScriptedUpstream


def refused(**headers: str) -> RefusalKind | None:
    found = Sites(["Gateway.internal"]).refusal([(name.encode(), value.encode()) for name, value in headers.items()])
    return found.kind if found else None


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8787", "127.0.0.1:8787", "[::1]:8787", "10.0.0.5:8787", "gateway.internal", "x.localhost"],
)
def test_own_names_and_addresses(host: str) -> None:
    assert refused(host=host) is None
    assert refused(host=host, origin=f"http://{host}") is None
    assert refused(host=host, origin="http://localhost:3000") is None
    assert refused(host=host, origin="https://evil.example") is RefusalKind.OTHER_SITE
    assert refused(host=host, origin="http://10.6.6.6") is RefusalKind.OTHER_SITE
    assert refused(host=host, origin="null") is RefusalKind.OTHER_SITE


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "gateway.internal.evil.example", "[::1"]
)
def test_other_names(host: str) -> None:
    assert refused(host=host) is RefusalKind.OTHER_HOST


def test_without_a_host_as_in_the_first_http() -> None:
    assert refused() is None


@pytest.mark.parametrize("path", ["/", "/drsr/state.json", "/metrics", "/healthz", "/v1/models", "/v1/messages"])
def test_they_are_refused_on_every_path(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str
) -> None:
    url = f"{proxy.address}{path}"
    assert http.get(url, headers={"host": "evil.example"}).status_code == 421
    plain = {"origin": "https://evil.example", "content-type": "text/plain"}
    answer = http.post(url, headers=plain, content=b"{}")
    assert (answer.status_code, answer.headers["x-drsr-error"]) == (403, "other_site")
    assert http.get(url, headers=plain).status_code == 403
    assert upstream.requests == []
