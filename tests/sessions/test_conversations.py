"""Requests of one conversation find its session again; branches get their own; the oldest are forgotten."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from drsr.policy.scripted import scripted_policy
from drsr.request.request import Protocol
from drsr.sessions.conversations import ENDS_KEPT, Conversations, branch, trail_of
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import PruningSession
from tests.agent_runs import growing

PRICES = Prices(3, 0.3, 3.75, 15)
KEY = [(b"authorization", b"Bearer one")]


def session() -> PruningSession:
    return scripted_policy().session(PRICES, 40)


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
