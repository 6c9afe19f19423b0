"""Sessions through the proxy: what a provider's prompt cache sees, against sessions that are asked directly."""

from __future__ import annotations

import json

import httpx
import pytest

from drsr.policy.scripted import scripted_policy
from drsr.proxy.settings import SessionSettings
from drsr.request.request import Protocol
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import PruningSession
from tests.agent_runs import growing
from tests.proxy.conftest import StartProxy
from tests.proxy.running import PATIENCE, RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.proxy.test_limits import GatedScorer

PRICES = Prices(3, 0.3, 3.75, 15)
PATHS: dict[Protocol, str] = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def session() -> PruningSession:
    return scripted_policy().session(PRICES, 40)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_through_the_proxy_a_run_is_pruned_as_in_a_session(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, protocol: Protocol
) -> None:
    """Against its twin: a session asked directly. Two runs take turns, and do not disturb one another."""
    proxy = start_proxy(sessions=SessionSettings(PRICES, expected_calls=40))
    twins = {marker: session() for marker in ("one", "two")}
    runs = {marker: list(growing(marker, protocol)) for marker in twins}
    pruned = 0
    for number in range(12):
        for marker, twin in twins.items():
            body = runs[marker][number]
            wanted = twin.prune(request=body, format=protocol)
            answer = http.post(f"{proxy.address}{PATHS[protocol]}", json=body, headers={"authorization": "Bearer k"})
            assert upstream.latest().json() == wanted.request
            assert answer.headers["x-drsr-tokens-saved"] == str(wanted.tokens_saved)
            pruned += wanted.pruned
    assert pruned > 4
    state = http.get(f"{proxy.address}/drsr/state.json").json()
    assert (state["session_mode"], state["sessions"]) == (True, 2)


def test_what_was_removed_stays_removed(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(sessions=SessionSettings(PRICES, expected_calls=40))
    removed: set[str] = set()
    for body in growing("run", last=14):
        http.post(f"{proxy.address}{PATHS['openai']}", json=body)
        sent = {json.dumps(message) for message in upstream.latest().json()["messages"]}
        assert not removed & sent
        removed |= {json.dumps(message) for message in body["messages"]} - sent
    assert removed


def test_a_late_decision_leaves_no_trace_in_its_session(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    scorer = GatedScorer()
    policy = scripted_policy(scorer=scorer)
    proxy: RunningProxy = start_proxy(policy=policy, workers=2, deadline=1.0, sessions=SessionSettings(PRICES, 40))
    bodies = list(growing("run", last=12))
    url = f"{proxy.address}{PATHS['openai']}"
    late = http.post(url, json=bodies[8])
    assert late.headers["x-drsr-reason"] == "deadline_exceeded"
    assert upstream.latest().json() == bodies[8]
    proxy.parts.decider.deadline = 0.1
    # The worker is still at it: the next request of this conversation waits at the gate and blocks no second worker.
    again = http.post(url, json=bodies[9])
    assert again.headers["x-drsr-reason"] == "deadline_exceeded"
    assert (proxy.parts.decider.running, proxy.parts.decider.waiting) == (1, 0)
    scorer.go.set()
    assert eventually(lambda: proxy.count("late") == 1)
    proxy.parts.decider.deadline = PATIENCE
    http.post(url, json=bodies[10])
    twin = scripted_policy(scorer=scorer).session(PRICES, 40)
    assert upstream.latest().json() == twin.prune(request=bodies[10]).request


def test_a_request_that_is_nested_too_deeply_goes_through(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(sessions=SessionSettings(PRICES, 40))
    for depth in (150, 300, 600, 900):
        nested = json.loads("[" * depth + "]" * depth)
        content = json.dumps({"model": "echo", "messages": [{"role": "user", "content": "x", "n": nested}]}).encode()
        answer = http.post(f"{proxy.address}{PATHS['openai']}", content=content)
        assert upstream.latest().body == content
        assert answer.headers["x-drsr-reason"] in ("unreadable_request", "too_few_candidates")


def test_a_warm_proxy_reads_the_answer_for_the_next_decision(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    policy = scripted_policy()
    proxy = start_proxy(policy=policy, warm=True)
    bodies = list(growing("warm", last=12))
    url = f"{proxy.address}{PATHS['openai']}"
    answer = http.post(url, json=bodies[8])
    assert answer.status_code == 200
    representation = policy.frozen.representation
    assert eventually(lambda: representation.passes == 2)  # type: ignore[attr-defined]
    assert policy.reader.wait(PATIENCE)
    said = answer.json()["choices"][0]["message"]
    known = {**bodies[8], "messages": [*bodies[8]["messages"], {"role": "assistant", "content": said["content"]}]}
    policy.prune(request=known, deadline_ms=60_000)
    assert representation.passes == 2  # type: ignore[attr-defined]
