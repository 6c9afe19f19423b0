"""Any request at all, through the proxy: what the policy says for it, or the very bytes that came."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drsr.policy.scripted import scripted_policy
from drsr.request.request import Protocol
from tests.proxy.running import RunningProxy
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.strategies import PROTOCOLS, aborted_requests, arbitrary_requests, corrupted_requests, valid_requests

PATHS: dict[Protocol, str] = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_arrives_as_the_policy_says(
    protocol: Protocol, proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    policy = scripted_policy()
    requests = st.one_of(
        valid_requests(protocol, 11, 5),
        arbitrary_requests(protocol),
        aborted_requests(protocol),
        corrupted_requests(protocol),
    )
    seen = set()

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(requests)
    @example({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Say hello."}]})
    def holds(body: Any) -> None:
        try:
            content = json.dumps(body, allow_nan=False).encode()
        except ValueError:  # NaN and the like: cannot be sent
            return
        answer = http.post(f"{proxy.address}{PATHS[protocol]}", content=content, headers={"x-example": "1"})
        got = upstream.latest().body
        decision = policy.prune(request=body, format=protocol, session=None) if isinstance(body, dict) else None
        reason = "unreadable_request" if decision is None else "pruned" if decision.pruned else str(decision.reason)
        assert answer.headers["x-drsr-reason"] == reason
        if decision is not None and decision.pruned:
            assert json.loads(got) == decision.request
        else:
            assert got == content
        seen.add(reason)

    holds()
    assert {"pruned", "unreadable_request", "too_few_candidates"} <= seen
