"""A policy that reads with a real language model, in worker threads behind the proxy, decides as it does alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from drsr.proxy.settings import SessionSettings
from tests.agent_runs import anthropic_body, growing, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.scripted_upstream import ScriptedUpstream, last_text
from tests.proxy.test_sessions import PRICES
from tests.seeded_policies import tiny_policy
from tests.tiny_backbones import tiny_backbone


def test_decisions_in_two_workers(start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client) -> None:
    policy = tiny_policy(tiny_backbone("llama"))
    proxy = start_proxy(policy=policy, workers=2)
    bodies = {}
    for number in range(3):
        bodies[f"run-{number}"] = ("/v1/chat/completions", openai_body(f"run-{number}"))
        bodies[f"other-{number}"] = ("/v1/messages", anthropic_body(f"other-{number}"))
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda each: http.post(proxy.address + each[0], json=each[1]), bodies.values()))
    got = {last_text(request.json()): request.json() for request in upstream.requests}
    wanted = {marker: policy.prune(request=body) for marker, (_, body) in bodies.items()}
    assert got == {marker: decision.request for marker, decision in wanted.items()}
    assert any(decision.pruned for decision in wanted.values())


def test_a_conversation_keeps_the_models_state(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    policy = tiny_policy(tiny_backbone("llama"))
    proxy = start_proxy(policy=policy, sessions=SessionSettings(PRICES, 40))
    twin = policy.session(PRICES, 40)
    pruned = 0
    for body in growing("run", last=12):
        http.post(f"{proxy.address}/v1/chat/completions", json=body)
        decision = twin.prune(request=body)
        assert upstream.latest().json() == decision.request
        pruned += decision.pruned
    assert pruned > 0
