"""Recorded runs replayed decision by decision, request by request and in a session: every rewrite is valid.

With the scripted double, which deletes whenever it may. A handful of runs here; all of them with DRSR_FUZZ_EXAMPLES.
"""

from __future__ import annotations

import os

import pytest

from drsr.decide.decision import Reason
from drsr.decide.invariants import check_all
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.protocol import violations
from drsr.request.rendering import common_prefix, render
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.trajectory_files import RecordedRun, recorded_runs

SHARES = 4
RUNS = None if "DRSR_FUZZ_EXAMPLES" in os.environ else 16
PRICES = Prices(3, 0.3, 3.75, 15)


def some_runs(share: int) -> list[RecordedRun]:
    """Every so-many-th run, so that all kinds of files are among them."""
    runs = recorded_runs()
    step = 1 if RUNS is None else max(1, len(runs) // RUNS)
    return list(runs[::step][share::SHARES])


def check(run: RecordedRun, length: int, decision: Decision, policy: Policy) -> None:
    where = f"{run.name} at message {length}: {decision.detail}"
    assert decision.error is None, where
    assert decision.reason is not Reason.INVARIANT_VIOLATED, where
    assert decision.outcome is not None
    assert [problem for _, problem in check_all(decision.outcome.evidence) if problem] == [], where
    if not decision.pruned:
        assert decision.messages == run.messages[:length]
        return
    original, sent = (
        read_request(messages, protocol=run.protocol) for messages in (run.messages[:length], decision.messages)
    )
    assert len(violations(sent)) <= len(violations(original)), where
    assert {found.kind for found in violations(sent)} <= {found.kind for found in violations(original)}, where
    tokenizer = policy.frozen.representation.tokenizer
    before, after = len(render(original, tokenizer)), len(render(sent, tokenizer))
    assert (decision.tokens_before, decision.tokens_after) == (before, after)
    assert 0 < before - after <= policy.numbers.removal_cap * before, where


@pytest.mark.parametrize("share", range(SHARES))
def test_request_by_request(share: int) -> None:
    policy = scripted_policy()
    pruned = 0
    for run in some_runs(share):
        for length in run.decisions:
            decision = policy.prune(run.messages[:length], format=run.protocol, session=None)
            check(run, length, decision, policy)
            pruned += decision.pruned
    assert pruned


@pytest.mark.parametrize("share", range(SHARES))
def test_in_a_session(share: int) -> None:
    policy = scripted_policy()
    tokenizer = policy.frozen.representation.tokenizer
    pruned = 0
    for run in some_runs(share):
        session = policy.session(prices=PRICES, expected_calls=50)
        before = None
        for length in run.decisions:
            decision = session.prune(run.messages[:length], format=run.protocol)
            check(run, length, decision, policy)
            now = render(read_request(decision.messages, protocol=run.protocol), tokenizer).token_ids
            if before is not None and decision.reason is not None and decision.reason is not Reason.INVALID_PROTOCOL:
                assert common_prefix(before, now) == len(before), f"{run.name}: the prefix changed at {length}"
            before = now
            pruned += decision.pruned
    assert pruned
