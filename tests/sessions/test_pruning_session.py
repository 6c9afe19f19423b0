"""Sessions: what was removed stays removed, the prefix stays stable, and more goes only where it pays."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.decide.decision import Reason
from drsr.decide.invariants import Held, check_all
from drsr.decide.representation import SCRIPTED_LAYOUT
from drsr.errors import SettingsError
from drsr.offline import samples
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.history import delete
from drsr.request.rendering import common_prefix, render
from drsr.request.request import Request, read_request
from drsr.scorer.scripted import ScriptedScorer
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import PruningSession
from tests.features.states import call, run_messages
from tests.strategies import PROTOCOLS, valid_requests

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())
CACHED = Prices(3, 0.3, 3.75, 15)
UNCACHED = Prices(3, 3, 3, 15)
"""A provider without a cache: reading costs what writing costs, so every deletion is worth it."""


def growing(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The requests of a run: what stands before each assistant message, and the whole."""
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            yield messages[:index]
    yield messages


def token_ids(policy: Policy, body: Any) -> Any:
    return render(read_request(body), policy.frozen.representation.tokenizer).token_ids


def names(decision: Decision) -> list[str]:
    return [row["block"] for row in decision.receipt["removed"]]


def check(decision: Decision, policy: Policy) -> None:
    """What must hold of every decision of a session."""
    assert decision.error is None, decision.detail
    assert decision.outcome is not None
    evidence = decision.outcome.evidence
    assert [problem for _, problem in check_all(evidence) if problem] == []
    history = evidence.original
    blocks = {block.name: block for step in history.steps for block in step.blocks}
    expected = delete(history, [blocks[name] for name in names(decision)]).request
    assert decision.request == (expected.to_wire() if decision.pruned else decision.original)
    tokenizer = policy.frozen.representation.tokenizer
    if decision.tokens_before is not None:
        assert decision.tokens_before == len(render(history.request, tokenizer))
        assert decision.tokens_after == len(render(expected, tokenizer))
        assert 0 <= decision.tokens_saved <= policy.numbers.removal_cap * decision.tokens_before
    assert decision.pruned == bool(names(decision))


@pytest.mark.parametrize("expected_calls", [12, 40, 400])
def test_a_run(expected_calls: int) -> None:
    policy = scripted_policy()
    session = policy.session(prices=CACHED, expected_calls=expected_calls)
    sent: Any = None
    removed: list[str] = []
    for messages in growing(run_messages(30, words=60)):
        decision = session.prune(messages)
        check(decision, policy)
        now = token_ids(policy, decision.messages)
        if decision.reason is not None and sent is not None:
            assert common_prefix(sent, now) == len(sent), "without a new deletion the prefix must stay as it was"
        if decision.reason is None:
            assert decision.session is not None
            weighed = decision.session["chosen"]
            assert weighed["saved_later"] > weighed["extra_now"]
            assert names(decision)[: len(removed)] == removed
            assert len(names(decision)) > len(removed)
        else:
            assert names(decision) == removed
        sent, removed = now, names(decision)
    assert session.calls == 31
    assert bool(removed) == (expected_calls > 12)


def test_a_longer_run_removes_more() -> None:
    saved = []
    for expected_calls in (1, 20, 60, 600):
        session = scripted_policy().session(prices=CACHED, expected_calls=expected_calls)
        saved.append([session.prune(messages) for messages in growing(run_messages(30, words=60))][-1].tokens_saved)
    assert saved[0] == 0 < saved[1] < min(saved[2:]), "until the removal cap is reached"


def test_without_a_cache_the_first_deletion_is_the_policys_own() -> None:
    policy = scripted_policy()
    session = policy.session(prices=UNCACHED, expected_calls=30)
    first = next(
        (messages, decision) for messages in growing(run_messages(12)) if (decision := session.prune(messages)).pruned
    )
    assert policy.prune(first[0]).request == first[1].request


def test_a_request_whose_cache_has_expired_is_pruned_like_a_new_one() -> None:
    now = [0.0]
    policy = scripted_policy()
    prices = Prices(3, 0.3, 3.75, 15, cache_lifetime=300)
    session = PruningSession(policy, prices, expected_calls=3, clock=lambda: now[0])
    messages = run_messages(30, words=60)
    session.prune(messages[:-2], protect=lambda *_: True)
    now[0] = 299.0
    assert session.prune(messages).reason is Reason.NOT_WORTH_REWRITING
    now[0] = 600.0
    decision = session.prune(messages)
    assert decision.reason is None
    assert decision.session is not None
    assert decision.session["cached_tokens"] == 0


def pruned_session(policy: Policy, messages: list[dict[str, Any]]) -> tuple[PruningSession, Decision]:
    session = policy.session(prices=UNCACHED, expected_calls=100)
    decision = session.prune(messages)
    assert decision.pruned
    return session, decision


def test_a_run_taken_back_to_an_earlier_point_gets_back_what_is_recent_then() -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages)
    gone = min(int(name.partition(".")[0]) for name in names(first))
    earlier = messages[: 2 + 2 * (gone + 2)]  # the removed Step is one of the two latest now
    decision = session.prune(earlier)
    check(decision, policy)
    assert not decision.pruned
    assert decision.messages is earlier


def test_what_was_edited_is_sent_again() -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages)
    changed = json.loads(json.dumps(messages))
    for row in first.receipt["removed"]:
        for index in row["messages"]:
            if changed[index]["role"] == "tool":
                changed[index]["content"] = "another result"
    decision = session.prune(changed)
    check(decision, policy)
    assert not set(names(first)) <= set(names(decision)) or decision.reason is None
    assert decision.session is not None
    assert decision.session["removed_before"] == []


def test_what_is_pinned_now_is_sent_again() -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages)
    decision = session.prune(messages, protect=lambda block, _: block.name in names(first))
    check(decision, policy)
    assert not set(names(first)) & set(names(decision))


def test_protect_sees_the_whole_request() -> None:
    """Also when the policy decides about a request from which something is missing already."""
    policy = scripted_policy()
    messages = run_messages(14)
    session, _ = pruned_session(policy, messages[:-8])

    def protect(block: Any, request: Request) -> bool:
        assert request.messages == read_request(messages).messages
        return True

    decision = session.prune(messages, protect=protect)
    assert decision.error is None
    assert not decision.pruned


def test_bad_requests_in_the_middle_of_a_run_come_back_unchanged_and_change_nothing() -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages[:-4])
    stray = [*messages, {"role": "tool", "tool_call_id": "nobody", "content": "x"}]
    for body, reason in ((7, Reason.UNREADABLE_REQUEST), ({"messages": stray}, Reason.INVALID_PROTOCOL)):
        decision = session.prune(request=body)
        assert (decision.request, decision.reason) == (body, reason)
    decision = session.prune(messages)
    check(decision, policy)
    assert set(names(first)) <= set(names(decision))
    assert session.calls == 4


def test_a_failure_returns_the_whole_original(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages)
    with monkeypatch.context() as patch:

        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError("planted")

        patch.setattr("drsr.sessions.pruning_session.decide", fail)
        decision = session.prune(messages)
        assert decision.reason is Reason.INTERNAL_FAILURE
        assert decision.messages is messages
    assert session.prune(messages).request == first.request


def test_a_violation_found_on_the_whole_rewrite_returns_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()
    session = policy.session(prices=UNCACHED, expected_calls=100)
    messages = run_messages(12)

    def wrong(history: Any, blocks: Any) -> Any:
        found = delete(history, blocks)
        return found._replace(request=found.request.with_messages(found.request.messages[:-1]), kept=found.kept[:-1])

    monkeypatch.setattr("drsr.sessions.pruning_session.delete", wrong)
    decision = session.prune(messages)
    assert decision.reason is Reason.INVARIANT_VIOLATED
    assert decision.messages is messages
    assert (decision.pruned, decision.tokens_saved) == (False, 0)


def test_a_call_that_was_aborted_behind_something_removed_is_no_new_violation() -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    aborted = {"role": "assistant", "content": None, "tool_calls": [call(99, "bash", query="x")]}
    messages = [*messages[:-4], aborted, {"role": "user", "content": "stop that"}, *messages[-4:]]
    session, first = pruned_session(policy, messages)
    whole = [block for row in first.receipt["removed"] for block in row["messages"]]
    assert len(first.messages) < len(messages), "whole messages must be gone, so that indexes differ"
    assert max(whole) < messages.index(aborted)
    more = run_messages(6, seed=9)[2:]
    for end in range(2, len(more) + 1, 2):
        decision = session.prune([*messages, *more[:end]])
        check(decision, policy)
        assert decision.pruned
        assert decision.reason is not Reason.INVARIANT_VIOLATED


def test_a_violation_in_the_decision_is_kept_in_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()
    messages = run_messages(12)
    session, first = pruned_session(policy, messages[:-4])
    with monkeypatch.context() as patch:
        patch.setattr("drsr.decide.decision.check_all", lambda evidence: (Held("planted", "wrong"),))
        decision = session.prune(messages)
    assert decision.reason is Reason.INVARIANT_VIOLATED
    assert decision.receipt["invariants"] == {"planted": False}
    assert decision.messages == messages, "where a check failed, nothing is removed at all"
    assert not decision.pruned


def test_prune_takes_a_session_of_its_own_policy_only() -> None:
    policy, other = scripted_policy(), scripted_policy()
    session = policy.session(prices=UNCACHED, expected_calls=9)
    assert policy.prune(request=BODY, session=session).pruned
    assert session.calls == 1
    with pytest.raises(ValueError, match="another policy's"):
        other.prune(request=BODY, session=session)


def test_no_model_is_run_where_no_deletion_could_pay() -> None:
    policy = scripted_policy()
    session = policy.session(prices=CACHED, expected_calls=1)
    messages = run_messages(12)
    session.prune(messages[:-2], protect=lambda *_: True)
    before = policy.frozen.representation.passes  # type: ignore[attr-defined]
    decision = session.prune(messages)
    assert decision.reason is Reason.NOT_WORTH_REWRITING
    assert policy.frozen.representation.passes == before  # type: ignore[attr-defined]
    assert decision.receipt["passes"] == 0
    assert {row["verdict"] for row in decision.receipt["sets"]} <= {"not_worth_rewriting", "over_removal_cap"}
    assert "re-writing the cached prefix" in decision.explain()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_run_of_any_shape(protocol: Any) -> None:
    @settings(max_examples=40)
    @given(valid_requests(protocol, 11, 6), st.integers(0, 99), st.sampled_from((UNCACHED, CACHED)), st.integers(1, 99))
    def holds(body: Any, seed: int, prices: Prices, expected_calls: int) -> None:
        whole = body["messages"] if isinstance(body, dict) else body
        policy = scripted_policy(removal_cap=0.4, scorer=ScriptedScorer(SCRIPTED_LAYOUT, seed), risk_threshold=0.7)
        session = policy.session(prices=prices, expected_calls=expected_calls)
        removed: list[str] = []
        for messages in growing(whole):
            decision = session.prune(messages, format=protocol)
            check(decision, policy)
            assert set(removed) <= set(names(decision))
            removed = names(decision)

    holds()


def test_the_whole_history_is_handed_in_every_time_and_never_changed() -> None:
    session = scripted_policy().session(prices=UNCACHED, expected_calls=9)
    messages = run_messages(12)
    before = json.dumps(messages)
    for part in growing(messages):
        session.prune(part)
    assert json.dumps(messages) == before
    assert np.array_equal(token_ids(session.policy, json.loads(before)), token_ids(session.policy, messages))


@pytest.mark.parametrize("expected_calls", ["x", math.nan, 0, -1, True, 2.5])
def test_a_number_of_calls_that_is_none_is_refused_at_once(expected_calls: Any) -> None:
    with pytest.raises(SettingsError, match="whole number from 1 on"):
        scripted_policy().session(UNCACHED, expected_calls)


def test_an_unknown_format_is_refused_as_without_a_session() -> None:
    policy = scripted_policy()
    session = policy.session(UNCACHED, 9)
    for prune in (policy.prune, session.prune):
        with pytest.raises(ValueError, match="unknown format 'x'"):
            prune([{"role": "user", "content": "x"}], format="x")  # type: ignore[arg-type]
    assert session.calls == 0


def test_a_run_that_is_joined_in_its_middle_counts_as_cached() -> None:
    """Up to its last answer: that was sent by somebody before."""
    policy = scripted_policy()
    messages = run_messages(30, words=60)
    last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
    joined = policy.session(CACHED, 3).prune(messages)
    assert joined.reason is Reason.NOT_WORTH_REWRITING
    assert joined.session is not None
    # The generation prompt is the beginning of the answer that followed.
    assert joined.session["cached_tokens"] == len(token_ids(policy, messages[:last])) - len(prompt(policy))
    started = policy.session(CACHED, 3).prune(messages[:1])
    assert started.session is not None
    assert started.session["cached_tokens"] == 0


def prompt(policy: Policy) -> Any:
    rendering = render(read_request(run_messages(1)), policy.frozen.representation.tokenizer)
    return rendering.token_ids[-rendering.prompt_length :]


def test_behind_a_deadline_nothing_more_goes_and_what_went_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy(max_cardinality=1, removal_cap=0.6)
    messages = run_messages(14, words=60)
    session, first = pruned_session(policy, messages[:-6])
    representation, may_read = policy.frozen.representation, threading.Event()
    plain = representation.features

    def features(state: Any, give_up: Any = None) -> Any:
        assert may_read.wait(60)
        return plain(state)

    monkeypatch.setattr(representation, "features", features)
    late = session.prune(messages[:-2], deadline_ms=10)
    assert late.pruned
    assert late.reason is Reason.DEADLINE_EXCEEDED
    assert names(late) == names(first)
    check(late, policy)
    may_read.set()
    assert policy.reader.wait(60)
    following = session.prune(messages, deadline_ms=60_000)
    assert following.reason is not Reason.DEADLINE_EXCEEDED
    assert set(names(first)) <= set(names(following))
    check(following, policy)


def test_a_request_that_went_whole_counts_as_cached() -> None:
    policy = scripted_policy()
    requests = list(growing(run_messages(12)))
    told, untold = (policy.session(prices=CACHED) for _ in range(2))
    for request in requests[:3]:
        told.prune(request=request)
        untold.prune(request=request)
    told.went_whole()  # the requests with 4 to 10 Steps, whose decisions were late
    decision, other = told.prune(request=requests[10]), untold.prune(request=requests[10])
    assert decision.session is not None
    assert other.session is not None
    assert decision.session["cached_tokens"] > other.session["cached_tokens"]
    assert told.calls_before + told.calls == 11  # ten Steps before, and this one


def test_a_block_that_sealed_reasoning_made_opaque_stays_when_that_went_with_its_call() -> None:
    """The reasoning goes with the call, and what is left of its message looks free, but was not in the full request."""
    call = {"type": "tool_use", "id": "a", "name": "bash", "input": {}}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}
    sealed = [{"type": "text", "text": "ok"}, {"type": "redacted_thinking", "data": "AA=="}, call]
    body: list[dict[str, Any]] = [
        *({"role": "user", "content": "ok"}, {"role": "user", "content": "ok"}),
        {"role": "assistant", "content": [{"type": "text", "text": "I will look."}]},
        *({"role": "assistant", "content": [call]}, answer),
        *({"role": "assistant", "content": sealed}, answer),
        *[{"role": "assistant", "content": "ok"}] * 4,
    ]
    policy = scripted_policy(removal_cap=0.4, scorer=ScriptedScorer(SCRIPTED_LAYOUT, 1), risk_threshold=0.7)
    session = policy.session(prices=UNCACHED, expected_calls=1)
    removed: set[str] = set()
    for messages in growing(body):
        decision = session.prune(messages, format="anthropic")
        check(decision, policy)
        removed |= set(names(decision))
    assert "2.1" in removed
    assert "2.0" not in removed
