"""`POST /drsr/decide`: the decision alone, for who forwards requests by other means."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from drsr.policy.scripted import scripted_policy
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.proxy.test_responses import responses_body


@pytest.mark.parametrize("body", [openai_body(), anthropic_body()], ids=["openai", "anthropic"])
def test_it_is_what_the_policy_decides_and_nothing_is_forwarded(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, body: dict[str, Any]
) -> None:
    proxy = start_proxy()
    decision = scripted_policy().prune(request=body)
    said = http.post(f"{proxy.address}/drsr/decide", json=body).json()
    assert len(said.pop("decision")) == 16
    assert said == {
        "pruned": True,
        "reason": "pruned",
        "shadow_reason": None,
        "tokens_before": decision.tokens_before,
        "tokens_after": decision.tokens_after,
        "tokens_saved": decision.tokens_saved,
        "request": decision.request,
    }
    assert upstream.requests == []
    assert eventually(lambda: proxy.count("decisions", "decide", "pruned") == 1)
    assert proxy.count("saved") == 0  # whether it is sent, and with success, is not known here


def test_items_too(proxy: RunningProxy, http: httpx.Client) -> None:
    body = responses_body()
    said = http.post(f"{proxy.address}/drsr/decide", json=body).json()
    assert said["pruned"]
    assert len(said["request"]["input"]) < len(body["input"])


@pytest.mark.parametrize(
    ("content", "headers", "reason"),
    [
        (b'{"messages": []}', {}, "unreadable_request"),
        (b"[]", {}, "unreadable_request"),
        (b"x" * 3_000, {}, "too_large"),
        (b"", {"x-drsr-bypass": "1"}, "bypass"),
    ],
)
def test_without_a_decision_there_is_a_reason(
    start_proxy: StartProxy, http: httpx.Client, content: bytes, headers: dict[str, str], reason: str
) -> None:
    proxy = start_proxy(max_body=2_000)
    said = http.post(f"{proxy.address}/drsr/decide", content=content, headers=headers).json()
    assert (said["pruned"], said["request"]) == (False, None)
    assert said["reason"] in (reason, "too_few_candidates", "invalid_protocol")


def test_in_the_shadow_it_says_what_would_be(start_proxy: StartProxy, http: httpx.Client) -> None:
    proxy = start_proxy(shadow=True)
    said = http.post(f"{proxy.address}/drsr/decide", json=openai_body()).json()
    assert (said["pruned"], said["reason"], said["shadow_reason"]) == (False, "shadow", "pruned")


def test_what_is_not_json_is_refused(proxy: RunningProxy, http: httpx.Client) -> None:
    assert http.post(f"{proxy.address}/drsr/decide", content=b"{").status_code == 400
