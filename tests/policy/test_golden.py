"""Golden requests: what is written down, what a verification notices, and which decisions are too close."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.decide.representation import ScriptedRepresentation
from drsr.decide.selection import ProposedSets, SelectionRule, select
from drsr.errors import InputError, PolicyCorrupt
from drsr.policy.folder import PolicyFiles
from drsr.policy.golden import (
    GOLDEN_FILE,
    HARM_TOLERANCE,
    UNSAFE_FLOOR,
    UNSAFE_TOLERANCE,
    GoldenRequest,
    compare,
    decided,
    golden_bytes,
    read_golden,
    score_difference,
    survives,
    verify,
    verify_files,
)
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.contracts import SetScores
from drsr.scorer.ensemble import Ensemble
from drsr.scorer.scripted import ScriptedScorer
from tests.policy_wheels import BODY, REQUESTS, golden_of, package_of


def files_of(policy: Policy, golden: bytes | None) -> PolicyFiles:
    scorer = policy.frozen.scorer
    assert isinstance(scorer, Ensemble)
    return PolicyFiles(policy.numbers, scorer, policy.identity, {} if golden is None else {GOLDEN_FILE: golden})


def test_golden_requests_are_written_and_read_back() -> None:
    policy = scripted_policy()
    golden = golden_of(policy)
    data = golden_bytes(golden)
    assert golden_bytes(golden_of(policy)) == data
    assert list(read_golden(files_of(policy, data), "x")) == golden
    kinds = {item.name: (item.expected.pruned, item.expected.reason) for item in golden}
    assert kinds == {
        "sample": (True, None),
        "short": (False, "too_few_candidates"),
        "broken": (False, "invalid_protocol"),
        "no request": (False, "unreadable_request"),
    }
    (sample, *_) = golden
    assert len(sample.expected.sets) == 14
    assert sample.expected.tokens_before is not None
    assert sample.expected.tokens_after is not None
    assert sample.expected.tokens_after < sample.expected.tokens_before


def test_the_policy_that_made_them_passes() -> None:
    policy = scripted_policy()
    verification = verify_files(policy, files_of(policy, golden_bytes(golden_of(policy))), "x")
    assert verification.passed
    assert all(result.score_difference <= 1e-3 for result in verification.results)
    text = verification.to_text()
    assert "all 4 golden requests decide as expected" in text
    assert text.count("as expected") == 5
    assert json.loads(json.dumps(verification.to_json()))["passed"] is True


def test_another_policy_does_not() -> None:
    golden = golden_of(scripted_policy())
    for other in (scripted_policy(risk_threshold=None), scripted_policy(seed=5), scripted_policy(removal_cap=0.05)):
        verification = verify(other, golden)
        assert not verification.passed
        assert "1 of 4 golden requests do not decide as expected" in verification.to_text()
        assert "DIFFERENT" in verification.to_text()
        assert [bool(result.problems) for result in verification.results] == [True, False, False, False]
        json.dumps(verification.to_json(), allow_nan=False)


def test_no_golden_requests_is_no_pass() -> None:
    policy = scripted_policy()
    assert not verify(policy, []).passed
    with pytest.raises(InputError, match="without golden requests"):
        verify_files(policy, files_of(policy, None), "x")


def test_a_failure_inside_is_shown() -> None:
    class FailingScorer(ScriptedScorer):
        def score(self, *arguments: Any, **options: Any) -> SetScores:
            raise RuntimeError("no memory")

    golden = golden_of(scripted_policy())
    layout = scripted_policy().numbers.layout_hash
    broken = scripted_policy(scorer=FailingScorer(layout))
    verification = verify(broken, golden)
    assert not verification.passed
    assert "RuntimeError" in verification.to_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"pruned": False},
        {"reason": "no_valid_set"},
        {"removed": ("9.9",)},
        {"tokens_before": 1},
        {"tokens_after": 1},
        {"sent": "0" * 64},
        {"sets": ()},
    ],
)
def test_every_part_of_a_decision_is_compared(changes: dict) -> None:
    expected = decided(scripted_policy(), "sample", BODY).expected
    assert compare(expected, expected) == []
    assert len(compare(expected, expected._replace(**changes))) == 1


@pytest.mark.parametrize("score", ["unsafe_score", "predicted_harm"])
def test_scores_are_compared_within_the_tolerance(score: str) -> None:
    expected = decided(scripted_policy(), "sample", BODY).expected
    last = expected.sets[-1]
    value = getattr(last, score)
    allowed = UNSAFE_TOLERANCE * value + UNSAFE_FLOOR if score == "unsafe_score" else HARM_TOLERANCE

    def moved(by: float | None) -> list[str]:
        changes: dict[str, Any] = {score: None if by is None else value + by}
        return compare(expected, expected._replace(sets=(*expected.sets[:-1], last._replace(**changes))))

    assert moved(0.9 * allowed) == moved(-0.9 * allowed) == []
    for wrong in (1.1 * allowed, -1.1 * allowed, None, float("nan"), float("inf")):
        (problem,) = moved(wrong)
        assert "a score differs by" in problem


def test_a_small_unsafe_score_may_differ_by_little() -> None:
    """A threshold may be small: the tolerance shrinks with the scores, and does not vanish at zero."""
    expected = decided(scripted_policy(), "sample", BODY).expected

    def difference(before: float, after: float) -> float:
        one, other = (
            expected._replace(sets=(expected.sets[0]._replace(unsafe_score=score),)) for score in (before, after)
        )
        return score_difference(one, other)

    assert difference(1e-3, 1.02e-3) > 1
    assert difference(1e-3, 1.005e-3) < 1
    assert difference(0.0, 0.5e-6) < 1


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"7", b'{"format": "drsr-golden/0", "requests": []}', b'{"format": "drsr-golden/1"}']
    + [b'{"format": "drsr-golden/1", "requests": [{"name": "x", "request": 1, "expected": {"sets": []}}]}'],
)
def test_another_format_is_said(data: bytes) -> None:
    with pytest.raises(PolicyCorrupt, match="golden.json: cannot be read"):
        read_golden(files_of(scripted_policy(), data), "there")


def test_a_package_carries_them() -> None:
    golden = [
        GoldenRequest(name, request, golden_of(scripted_policy())[0].expected) for name, request in REQUESTS.items()
    ]
    assert package_of(scripted_policy_with_version()).data != package_of(scripted_policy_with_version(), golden).data


def scripted_policy_with_version() -> Policy:
    policy = scripted_policy()
    return Policy(replace(policy.numbers, version="1"), policy.frozen.scorer, ScriptedRepresentation())


@given(st.integers(0, 200), st.floats(0.0, 1.0), st.sampled_from([0, 8]), st.integers(0, 2**32 - 1))
def test_a_decision_that_survives_is_the_same_under_every_small_change(
    seed: int, threshold: float, steps: int, noise: int
) -> None:
    """The slow twin: move every score by hand, each in its own direction, and select again."""
    layout = scripted_policy().numbers.layout_hash
    policy = scripted_policy(risk_threshold=threshold, scorer=ScriptedScorer(layout, seed, steps=steps))
    decision = policy.prune(request=BODY)
    if not survives(decision):
        return
    outcome = decision.outcome
    assert outcome is not None
    proposed, selection, tokens = outcome.evidence.proposed, outcome.evidence.selection, outcome.evidence.tokens_before
    assert proposed is not None
    assert selection is not None
    assert tokens is not None
    random = np.random.default_rng(noise)
    for _ in range(20):
        moves = random.choice([-1, 1], len(proposed.unsafe_score)) * UNSAFE_TOLERANCE * proposed.unsafe_score * 0.999
        moved = proposed._replace(unsafe_score=proposed.unsafe_score + moves)
        assert select(moved, tokens, policy.numbers.rule).chosen == selection.chosen


def test_a_close_decision_does_not_survive() -> None:
    policy = scripted_policy()
    decision = policy.prune(request=BODY)
    assert survives(decision)
    assert decision.outcome is not None
    assert decision.outcome.evidence.proposed is not None
    chosen = decision.outcome.evidence.selection
    assert chosen is not None
    assert chosen.chosen is not None
    score = float(decision.outcome.evidence.proposed.unsafe_score[chosen.chosen])
    for threshold in (score * (1 + 0.5 * UNSAFE_TOLERANCE), score * (1 - 0.5 * UNSAFE_TOLERANCE)):
        assert not survives(scripted_policy(risk_threshold=threshold).prune(request=BODY))
    nothing: list[Any] = [{"messages": []}, 7]
    for request in nothing:  # nothing was scored, nothing can move
        assert survives(policy.prune(request=request))
    assert survives(scripted_policy(risk_threshold=None).prune(request=BODY))


def test_a_tie_does_not_survive() -> None:
    """Two feasible sets that save the same: whichever score is lower by a hair wins."""
    decision = scripted_policy().prune(request=BODY)
    assert decision.outcome is not None
    proposed = decision.outcome.evidence.proposed
    assert proposed is not None
    savings = np.full_like(proposed.direct_saving, 10)
    tied = ProposedSets(proposed.cardinality, savings, proposed.protocol_safe, *proposed[3:])
    evidence = replace(decision.outcome.evidence, proposed=tied)
    assert select(tied, 10_000, SelectionRule(3, 0.2, 1.0)).chosen is not None
    assert not survives(replace(decision, outcome=replace(decision.outcome, evidence=evidence)))
