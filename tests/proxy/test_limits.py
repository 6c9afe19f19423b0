"""Bounds: the time of a decision, the size of a request, and how many are on their way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from drsr.decide.decision import Reason
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.proxy import pruning
from drsr.proxy.http.json_body import parse_body, values_in
from drsr.proxy.pruning import VALUE_BYTES
from drsr.request.contracts import SetScores
from drsr.scorer.scripted import ScriptedScorer
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_http import connect, post
from tests.proxy.running import PATIENCE, RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


class GatedScorer(ScriptedScorer):
    """A double of a scorer that scores nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__(scripted_policy().numbers.layout_hash)
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()

    def score(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> SetScores:
        self.asked.release()
        assert self.go.wait(PATIENCE)
        return super().score(features, candidate_savings, masks, direct_savings)


@pytest.fixture
def scorer() -> Iterator[GatedScorer]:
    found = GatedScorer()
    yield found
    found.go.set()


@pytest.fixture
def gated(scorer: GatedScorer) -> Policy:
    return scripted_policy(scorer=scorer)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as opened:
        yield opened


def posted(http: httpx.Client, proxy: RunningProxy, marker: str, model: str = "echo") -> httpx.Response:
    return http.post(f"{proxy.address}{CHAT}", json=openai_body(marker, model=model))


def test_behind_its_deadline_a_request_goes_through_unchanged(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, gated: Policy, scorer: GatedScorer
) -> None:
    proxy = start_proxy(policy=gated, deadline=1.0)
    content = json.dumps(openai_body()).encode()
    answer = http.post(f"{proxy.address}{CHAT}", content=content)
    assert upstream.latest().body == content
    assert answer.headers["x-drsr-reason"] == "deadline_exceeded"
    assert answer.headers["x-drsr-tokens-saved"] == "0"
    assert "x-drsr-decision" not in answer.headers
    assert proxy.count("late") == 0  # it is still being made
    scorer.go.set()
    assert eventually(lambda: proxy.count("late") == 1)
    assert eventually(lambda: proxy.count("decisions", "chat_completions", "deadline_exceeded") == 1)
    assert proxy.count("saved") == 0
    proxy.parts.decider.deadline = PATIENCE
    assert posted(http, proxy, "beta").headers["x-drsr-reason"] == "pruned"


def test_a_decision_that_had_to_wait_too_long_is_never_made(
    start_proxy: StartProxy, http: httpx.Client, gated: Policy, scorer: GatedScorer
) -> None:
    proxy = start_proxy(policy=gated, deadline=1.0, workers=1)
    for marker, deadline in (("one", 1.0), ("two", 0.05), ("three", 0.05)):
        proxy.parts.decider.deadline = deadline
        assert posted(http, proxy, marker).headers["x-drsr-reason"] == "deadline_exceeded"
    assert proxy.parts.decider.waiting == 0
    scorer.go.set()
    assert eventually(lambda: proxy.count("late") == 1)
    assert scorer.asked.acquire(blocking=False)
    assert not scorer.asked.acquire(blocking=False)  # only the first was begun


def test_too_many_decisions_at_once_go_through_unchanged(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    gated: Policy,
    scorer: GatedScorer,
    threads: ThreadPoolExecutor,
) -> None:
    proxy = start_proxy(policy=gated, workers=1, queued_decisions=1)
    first = threads.submit(posted, http, proxy, "one")
    assert scorer.asked.acquire(timeout=PATIENCE)
    second = threads.submit(posted, http, proxy, "two")
    decider = proxy.parts.decider
    assert eventually(lambda: decider.waiting == 1)
    content = json.dumps(openai_body("three")).encode()
    answer = http.post(f"{proxy.address}{CHAT}", content=content)
    assert answer.headers["x-drsr-reason"] == "busy"
    assert upstream.latest().body == content
    scorer.go.set()
    assert [each.result().headers["x-drsr-reason"] for each in (first, second)] == ["pruned", "pruned"]


def test_a_client_that_hangs_up_while_we_decide(
    start_proxy: StartProxy, upstream: ScriptedUpstream, gated: Policy, scorer: GatedScorer
) -> None:
    proxy = start_proxy(policy=gated)
    with connect(proxy) as connection:
        connection.sendall(post(CHAT, json.dumps(openai_body()).encode()))
        assert scorer.asked.acquire(timeout=PATIENCE)
    assert eventually(lambda: proxy.count("gone") == 1)
    scorer.go.set()
    assert eventually(lambda: proxy.count("late") == 1)
    assert upstream.requests == []


def test_the_kill_switch_holds_for_what_is_being_decided(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    gated: Policy,
    scorer: GatedScorer,
    threads: ThreadPoolExecutor,
) -> None:
    proxy = start_proxy(policy=gated)
    answer = threads.submit(posted, http, proxy, "one")
    assert scorer.asked.acquire(timeout=PATIENCE)
    proxy.kill_file.touch()
    scorer.go.set()
    assert answer.result().headers["x-drsr-reason"] == "kill_switch"
    assert upstream.latest().json() == openai_body("one")


def test_in_shadow_mode_nobody_waits_for_the_decision(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    gated: Policy,
    scorer: GatedScorer,
    threads: ThreadPoolExecutor,
) -> None:
    proxy = start_proxy(policy=gated, shadow=True)
    answer = threads.submit(posted, http, proxy, "one")
    assert scorer.asked.acquire(timeout=PATIENCE)
    assert eventually(lambda: len(upstream.requests) == 1)  # it is with the upstream before anything is decided
    assert not scorer.go.is_set()
    scorer.go.set()
    assert answer.result().headers["x-drsr-shadow-reason"] == "pruned"
    # An upstream that fails leaves no decision behind that nobody waits for.
    scorer.go.clear()
    scorer.asked = threading.Semaphore(0)
    down = start_proxy(policy=gated, shadow=True, upstream="http://127.0.0.1:1")
    assert posted(http, down, "two").status_code == 502
    scorer.go.set()
    decider = down.parts.decider
    assert eventually(lambda: decider.running == decider.waiting == 0)


class FailingScorer(ScriptedScorer):
    """A double of a scorer that breaks."""

    def score(self, *_: object) -> SetScores:
        raise RuntimeError("the text of the request could be here")


def test_a_failure_inside_the_policy_breaks_nothing(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(policy=scripted_policy(scorer=FailingScorer(scripted_policy().numbers.layout_hash)))
    answer = posted(http, proxy, "one")
    assert answer.headers["x-drsr-reason"] == Reason.INTERNAL_FAILURE
    assert upstream.latest().json() == openai_body("one")


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("CONFIDENTIAL")


def test_a_failure_around_the_policy_breaks_nothing_either(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy = start_proxy()
    monkeypatch.setattr(proxy.parts.decider, "_answer", broken)
    answer = posted(http, proxy, "one")
    assert answer.headers["x-drsr-reason"] == Reason.INTERNAL_FAILURE
    assert upstream.latest().json() == openai_body("one")
    assert "a decision failed: RuntimeError in tests.proxy.test_limits" in caplog.text
    assert "CONFIDENTIAL" not in caplog.text


def test_a_fault_of_the_proxys_own_is_said_without_its_text(
    start_proxy: StartProxy, http: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = start_proxy()
    monkeypatch.setattr(proxy.parts.upstream, "send", broken)
    answer = http.post(f"{proxy.address}{MESSAGES}", json=anthropic_body())
    assert answer.status_code == 500
    message = "drsr proxy: internal error (RuntimeError)"
    assert answer.json() == {"type": "error", "error": {"type": "api_error", "message": message}}
    assert "internal error: RuntimeError in tests.proxy.test_limits" in caplog.text
    assert "CONFIDENTIAL" not in caplog.text


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_request_that_is_too_large_to_be_pruned_passes(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str
) -> None:
    proxy = start_proxy(max_body=2_000)
    make = openai_body if path == CHAT else anthropic_body
    content = json.dumps(make(steps=1)).encode()
    for given in (content.ljust(2_000), content.ljust(2_001), content.ljust(3_000_000)):
        for pieces in (given, iter([given[:1_500], given[1_500:]])):
            answer = http.post(f"{proxy.address}{path}", content=pieces)
            assert answer.status_code == 200
            assert answer.headers["x-drsr-reason"] == ("too_large" if len(given) > 2_000 else "too_few_candidates")
            assert upstream.latest().body == given
    assert eventually(lambda: proxy.parts.budget.taken == 0)


def test_more_characters_than_a_policy_reads_pass_with_the_reason(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy()
    for body in (openai_body(padding="x" * 8_400_000), openai_body(padding=[[]] * 1_100_000)):
        content = json.dumps(body).encode()
        answer = http.post(f"{proxy.address}{CHAT}", content=content)
        assert (answer.status_code, answer.headers["x-drsr-reason"]) == (200, "too_large")
        assert upstream.latest().body == content


def test_requests_that_find_the_memory_taken_pass_unread(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    content = json.dumps(openai_body("two")).encode()
    proxy = start_proxy(memory=int(1.5 * (len(content) + VALUE_BYTES * values_in(content))))
    first = threads.submit(posted, http, proxy, "one", "silent")
    assert eventually(lambda: len(upstream.requests) == 1)
    assert http.post(f"{proxy.address}{CHAT}", content=content).headers["x-drsr-reason"] == "busy"
    assert upstream.latest().body == content
    upstream.gate.set()
    assert first.result().headers["x-drsr-reason"] == "pruned"
    assert eventually(lambda: proxy.parts.budget.taken == 0)
    assert http.post(f"{proxy.address}{CHAT}", content=content).headers["x-drsr-reason"] == "pruned"


def test_many_large_bodies_at_once_share_one_budget_of_memory(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is parsed takes much more memory than its text: all together it stays within the budget, and the rest
    passes unparsed."""
    content = json.dumps(openai_body("one", model="silent", padding=[[]] * 50_000)).encode()
    each = len(content) + VALUE_BYTES * values_in(content)
    assert each > 20 * len(content)
    proxy = start_proxy(memory=int(2.5 * each))
    parsed: list[int] = []

    def noted(body: bytes) -> Any:
        parsed.append(len(body))
        return parse_body(body)

    monkeypatch.setattr(pruning, "parse_body", noted)
    answers = [threads.submit(http.post, f"{proxy.address}{CHAT}", content=content) for _ in range(6)]
    assert eventually(lambda: len(upstream.requests) == 6)  # all are on their way, and none is answered
    assert parsed == [len(content)] * 2
    assert http.get(f"{proxy.address}/healthz").status_code == 200
    assert 2 * each <= proxy.parts.budget.taken <= 2.5 * each
    upstream.gate.set()
    reasons = sorted(answer.result().headers["x-drsr-reason"] for answer in answers)
    assert reasons == ["busy"] * 4 + ["pruned"] * 2
    assert sum(request.body == content for request in upstream.requests) == 4
    assert eventually(lambda: proxy.parts.budget.taken == 0)


def test_requests_beyond_the_limit_wait_their_turn(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    proxy = start_proxy(max_concurrent=1, patience=PATIENCE)
    first = threads.submit(posted, http, proxy, "one", "silent")
    assert eventually(lambda: len(upstream.requests) == 1)
    second = threads.submit(posted, http, proxy, "two")
    admission = proxy.parts.admission
    assert eventually(lambda: admission.waiting == 1)
    assert len(upstream.requests) == 1
    upstream.gate.set()
    texts = [each.result().json()["choices"][0]["message"]["content"] for each in (first, second)]
    assert texts == ["one", "two"]
    assert eventually(lambda: admission.inside == admission.waiting == 0)


def test_who_waits_too_long_is_refused(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    proxy = start_proxy(max_concurrent=1, patience=0.05)
    first: Future[httpx.Response] = threads.submit(posted, http, proxy, "one", "silent")
    assert eventually(lambda: len(upstream.requests) == 1)
    answer = posted(http, proxy, "two")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "overloaded"
    claude = http.post(f"{proxy.address}{MESSAGES}", json=anthropic_body())
    assert claude.json()["error"]["type"] == "overloaded_error"
    # The proxy's own pages are always there.
    assert http.get(f"{proxy.address}/healthz").status_code == 200
    upstream.gate.set()
    assert first.result().status_code == 200
