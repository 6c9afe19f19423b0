"""What is not worth a decision is not read."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.decide.decision import Reason
from drsr.decide.minimums import NO_MINIMUMS, Minimums
from drsr.decide.representation import ScriptedRepresentation
from drsr.errors import SettingsError
from drsr.policy.scripted import scripted_policy
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.features.states import run_messages

UNCACHED = Prices(3, 3, 3, 15)


def passes(policy: Any) -> int:
    representation = policy.frozen.representation
    assert isinstance(representation, ScriptedRepresentation)
    return representation.passes


def test_a_short_request_is_not_even_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, messages = scripted_policy(), run_messages(12)

    def tokenized(*_: Any) -> None:
        raise AssertionError("its tokens were counted")

    monkeypatch.setattr("drsr.decide.decision.render", tokenized)
    monkeypatch.setattr("drsr.sessions.pruning_session.render", tokenized)
    for minimums in (Minimums(request_tokens=5_000), Minimums(0, saving_tokens=2_000)):
        for session in ("auto", None, policy.session()):
            decision = policy.prune(messages, session=session, minimums=minimums)
            assert (decision.reason, decision.messages) == (Reason.BELOW_MINIMUM, messages)
    assert passes(policy) == 0


def test_a_request_that_only_counting_shows_to_be_short_is_not_read() -> None:
    policy, messages = scripted_policy(), run_messages(12)
    tokens = policy.prune(messages, session=None).tokens_before
    assert tokens is not None
    assert Minimums(tokens + 1, 0).why_below(read_request(messages), 0.2) is None
    assert policy.prune(messages, session=None, minimums=Minimums(tokens, 0)).pruned
    read = passes(policy)
    assert policy.prune(messages, session=None, minimums=Minimums(tokens + 1, 0)).reason is Reason.BELOW_MINIMUM
    assert passes(policy) == read


def test_sets_that_save_too_little_are_not_proposed() -> None:
    policy, messages = scripted_policy(removal_cap=0.9), run_messages(12)
    usual = policy.prune(messages, session=None)
    savings = sorted(row["direct_saving"] for row in usual.receipt["sets"])
    read = passes(policy)
    for session in (None, policy.session(UNCACHED, 100)):
        decision = policy.prune(messages, session=session, minimums=Minimums(0, usual.tokens_saved))
        assert decision.tokens_saved == usual.tokens_saved
        verdicts = {row["direct_saving"]: row["verdict"] for row in decision.receipt["sets"]}
        assert verdicts[savings[0]] == "below_minimum"
        assert "saves less than a deletion must" in decision.explain()
    unread = policy.prune(messages, session=None, minimums=Minimums(0, savings[-1] + 1))
    assert (unread.reason, passes(policy)) == (Reason.BELOW_MINIMUM, read + 2)


def test_what_a_session_removed_stays_removed_below_the_minimum() -> None:
    policy, messages = scripted_policy(), run_messages(12)
    session = policy.session(UNCACHED, 100)
    first = session.prune(messages[:-2])
    assert first.pruned
    second = session.prune(messages, minimums=Minimums(100_000, 0))
    assert (second.reason, second.pruned) == (Reason.BELOW_MINIMUM, True)
    assert second.messages == [*first.messages, *messages[-2:]]


def test_a_run_that_was_too_short_is_in_the_cache_when_it_is_long_enough() -> None:
    policy, messages = scripted_policy(), run_messages(30, words=60)
    short, long = Minimums(100_000, 0), NO_MINIMUMS
    decisions = [policy.prune(messages[:end], minimums=short) for end in range(2, 20, 2)]
    assert {decision.reason for decision in decisions} == {Reason.BELOW_MINIMUM}
    decision = policy.prune(messages[:20], minimums=long)
    assert decision.session is not None
    assert decision.session["call"] == 10
    assert decision.session["cached_tokens"] > 0


def test_defaults_leave_the_small_alone() -> None:
    assert Minimums() == Minimums(500, 64)
    assert Minimums().replaced(None, 7) == Minimums(500, 7)


@pytest.mark.parametrize("given", [(-1, 0), (0, -1), (True, 0), (1.5, 0), ("7", 0)])
def test_what_is_no_number_of_tokens_is_refused(given: tuple[Any, Any]) -> None:
    with pytest.raises(SettingsError, match="must be a whole number from 0 on"):
        Minimums(*given)
