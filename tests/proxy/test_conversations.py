"""Requests of one conversation find its session again; branches get their own; the oldest are forgotten."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from drsr.prices import Prices
from drsr.proxy.conversations import ENDS_KEPT, Conversations, branch, trail_of
from drsr.proxy.settings import SessionSettings
from drsr.pruning_session import PruningSession
from drsr.request import Protocol
from drsr.scripted_policy import scripted_policy
from tests.proxy.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import PATIENCE, RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.proxy.test_limits import GatedScorer

PRICES = Prices(3, 0.3, 3.75, 15)
KEY = [(b"authorization", b"Bearer one")]
PATHS: dict[Protocol, str] = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def session() -> PruningSession:
    return scripted_policy().session(PRICES, 40)


def growing(marker: str, protocol: Protocol = "openai", last: int = 12) -> Iterator[dict[str, Any]]:
    """The requests of one run, from its task on, each with one Step more."""
    make = openai_body if protocol == "openai" else anthropic_body
    whole = make(marker, last)
    first, step = (2, 2) if protocol == "openai" else (1, 2)
    for steps in range(last):
        yield {**whole, "messages": whole["messages"][: first + step * steps]}


def trail(body: dict[str, Any], credentials: Any = KEY, protocol: Protocol = "openai") -> tuple[bytes, ...]:
    return trail_of(body, protocol, credentials)


def test_a_growing_conversation_is_one() -> None:
    conversations = Conversations(session, 8)
    found = [conversations.of(trail(body)) for body in growing("a")]
    assert len({id(each) for each in found}) == 1
    assert len(conversations) == 1


def test_a_repeated_request_is_the_same_conversation() -> None:
    conversations = Conversations(session, 8)
    bodies = list(growing("a"))
    found = [conversations.of(trail(body)) for body in (*bodies[:3], bodies[2], bodies[2], bodies[3])]
    assert len({id(each) for each in found}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"},
        {"tools": []},
        {"system": "another"},
        {"messages": [{"role": "user", "content": "another"}]},
    ],
)
def test_what_a_cache_is_bound_to_makes_another_conversation(change: dict[str, Any]) -> None:
    conversations = Conversations(session, 8)
    body = next(growing("a"))
    assert conversations.of(trail(body)) is not conversations.of(trail({**body, **change}))


def test_another_key_is_another_conversation() -> None:
    conversations = Conversations(session, 8)
    body = next(growing("a"))
    assert conversations.of(trail(body)) is not conversations.of(trail(body, [(b"authorization", b"Bearer two")]))
    assert conversations.of(trail(body)) is conversations.of(trail(body, list(KEY)))


def test_a_branch_is_a_conversation_of_its_own() -> None:
    conversations = Conversations(session, 8)
    start = next(growing("a"))
    left = {**start, "messages": [*start["messages"], {"role": "assistant", "content": "left"}]}
    right = {**start, "messages": [*start["messages"], {"role": "assistant", "content": "right"}]}
    root, one, other = (conversations.of(trail(body)) for body in (start, left, right))
    assert one is root
    assert other is not root
    assert other.gate is root.gate  # they share the backbone's state
    assert conversations.of(trail(left)) is one
    assert conversations.of(trail(right)) is other
    assert len(conversations) == 2


def test_cache_marks_and_ways_to_write_a_text_do_not_matter() -> None:
    plain = {"system": "s", "messages": [{"role": "user", "content": "task"}]}
    marked = {
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "task", "cache_control": {"type": "ephemeral"}}]}
        ],
    }
    moved = copy.deepcopy(marked)
    moved["messages"][0]["content"][0].pop("cache_control")  # type: ignore[index]
    assert trail(marked) == trail(moved)
    assert trail({**plain, "system": marked["system"]}) == trail(marked)


def test_the_least_recently_used_is_forgotten_first() -> None:
    conversations = Conversations(session, 2)
    bodies = {marker: next(growing(marker)) for marker in "abc"}
    a = conversations.of(trail(bodies["a"]))
    b = conversations.of(trail(bodies["b"]))
    assert conversations.of(trail(bodies["a"])) is a
    conversations.of(trail(bodies["c"]))
    assert len(conversations) == 2
    assert conversations.of(trail(bodies["a"])) is a
    assert conversations.of(trail(bodies["b"])) is not b


def test_nothing_is_left_of_what_was_forgotten() -> None:
    conversations = Conversations(session, 2)
    for marker in "abcdefgh":
        for body in growing(marker, last=ENDS_KEPT + 5):
            conversations.of(trail(body))
    assert len(conversations) == 2
    assert len(conversations._by_end) == 2 * ENDS_KEPT


@pytest.mark.parametrize("body", [{}, {"messages": None}, {"messages": []}, {"messages": "x"}])
def test_without_messages_there_is_no_trail(body: dict[str, Any]) -> None:
    assert trail(body) == ()


def test_a_branch_leaves_the_session_it_came_from_as_it_was() -> None:
    """It is a shallow copy: this is the test that a session never changes in place what it remembers."""
    bodies = list(growing("a", last=14))
    straight = session()
    wanted = [straight.prune(request=body).request for body in bodies]
    assert any(len(got["messages"]) < len(body["messages"]) for got, body in zip(wanted, bodies, strict=True))
    root = session()
    for number, body in enumerate(bodies):
        trial = branch(root)
        for later in bodies[number:]:
            trial.prune(request=later)
        assert root.prune(request=body).request == wanted[number]


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
    proxy: RunningProxy = start_proxy(policy=policy, workers=2, deadline=1.0, sessions=SessionSettings(PRICES))
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
    proxy = start_proxy(sessions=SessionSettings(PRICES))
    for depth in (150, 300, 600, 900):
        nested = json.loads("[" * depth + "]" * depth)
        content = json.dumps({"model": "echo", "messages": [{"role": "user", "content": "x", "n": nested}]}).encode()
        answer = http.post(f"{proxy.address}{PATHS['openai']}", content=content)
        assert upstream.latest().body == content
        assert answer.headers["x-drsr-reason"] in ("unreadable_request", "too_few_candidates")
