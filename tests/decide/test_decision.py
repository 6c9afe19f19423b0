"""Algorithm 1: against its slow twin, with every reason, to the bit, and with exactly one forward of the backbone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.decide.decision import Reason, decide
from drsr.decide.representation import SCRIPTED_LAYOUT
from drsr.decide.selection import Standing
from drsr.errors import NonFiniteFeature
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.offline import samples
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.contracts import SetScores
from drsr.request.request import Request, read_request
from drsr.scorer.scripted import ScriptedScorer
from tests.features.states import run_messages
from tests.seeded_policies import tiny_policy
from tests.slow_decision import slow_decision
from tests.strategies import aborted, eligible
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture

BODY: dict[str, Any] = json.loads(samples.REQUEST.read_text())


def scripted_scores(seed: int, threshold: float, *, beta: float = 0.0, cap: float = 0.2, steps: int = 0) -> Policy:
    return scripted_policy(
        risk_threshold=threshold,
        uncertainty_coefficient=beta,
        removal_cap=cap,
        scorer=ScriptedScorer(SCRIPTED_LAYOUT, seed, steps=steps),
    )


@settings(max_examples=60)
@given(
    st.one_of(eligible, aborted),
    st.integers(0, 99),
    st.sampled_from((0.2, 0.5, 1.0)),
    st.sampled_from((0.0, 1.0)),
    st.sampled_from((0.05, 0.2, 0.6)),
    st.sampled_from((0, 2)),
)
def test_the_slow_twin_decides_alike(
    request: Request, seed: int, threshold: float, beta: float, cap: float, steps: int
) -> None:
    policy = scripted_scores(seed, threshold, beta=beta, cap=cap, steps=steps)
    decision = policy.prune(request=request.to_wire(), format=request.protocol, session=None)
    assert decision.request == slow_decision(request, policy)


def test_every_reason_that_a_selection_can_have() -> None:
    cases = {
        Reason.OVER_RISK_THRESHOLD: scripted_policy(risk_threshold=0.0),
        Reason.OVER_REMOVAL_CAP: scripted_policy(removal_cap=0.001),
        Reason.ALWAYS_ABSTAINS: scripted_policy(risk_threshold=None),
        Reason.RECENT_EXCEEDS_VIEW: scripted_policy(context_cap=10),
    }
    for reason, policy in cases.items():
        decision = policy.prune(request=BODY, session=None)
        assert (decision.reason, decision.request) == (reason, BODY), decision.detail
        assert decision.tokens_before == decision.tokens_after


def test_alignment_failure_leaves_the_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from drsr.backbone.scripted import ScriptedTokenizer
    from drsr.errors import AlignmentError

    def refuse(self: Any, texts: Any) -> Any:
        raise AlignmentError("no piece for a byte", content=0)

    monkeypatch.setattr(ScriptedTokenizer, "encode_contents", refuse)
    decision = scripted_policy().prune(request=BODY, session=None)
    assert decision.reason is Reason.ALIGNMENT_FAILURE
    assert decision.request is BODY
    assert decision.tokens_before is None


class FixedScores:
    """A scorer double that says what it was told, set by set."""

    layout_hash = SCRIPTED_LAYOUT

    def __init__(self, unsafe: float, harm: list[float]) -> None:
        self.unsafe, self.harm = unsafe, harm

    def score(self, features: Any, candidate_savings: Any, masks: Any, direct_savings: Any) -> SetScores:
        unsafe = np.full(len(masks), self.unsafe)
        return SetScores(np.resize(self.harm, len(masks)), unsafe, np.zeros(len(masks)))


def equal_steps() -> list[dict[str, Any]]:
    """Eight Steps that are all equally long, so that sets of one size save the same."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(8):
        messages += [{"role": "assistant", "content": "one two three four five"}, {"role": "user", "content": "on"}]
    return messages


def test_ties_are_broken_by_harm_and_then_by_order() -> None:
    falling = scripted_policy(scorer=FixedScores(0.1, [float(-number) for number in range(14)]))
    outcome = decide(read_request(equal_steps()), falling.frozen)
    rows = [row for row, found in enumerate(outcome.sets) if outcome.verdicts[row] is Standing.CHOSEN]
    best = max(found.direct_saving for row, found in enumerate(outcome.sets) if not _over_cap(outcome, row))
    tied = [row for row, found in enumerate(outcome.sets) if found.direct_saving == best]
    assert len(tied) > 1
    assert rows == tied[-1:]
    assert {outcome.verdicts[row] for row in tied[:-1]} == {Standing.HIGHER_PREDICTED_HARM}
    equal = decide(read_request(equal_steps()), scripted_policy(scorer=FixedScores(0.1, [0.0])).frozen)
    assert [row for row in tied if equal.verdicts[row] is Standing.CHOSEN] == tied[:1]
    assert {equal.verdicts[row] for row in tied[1:]} == {Standing.LISTED_LATER}


def _over_cap(outcome: Any, row: int) -> bool:
    return outcome.verdicts[row] is Standing.OVER_REMOVAL_CAP


class ForwardCounter:
    """Counts what runs through a model: forwards of its decoder, and the tokens in them."""

    def __init__(self, model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens: list[list[int]] = []
        kind: Any = type(model.get_decoder())  # type: ignore[operator]
        forward = kind.forward

        def counted(decoder: Any, *args: Any, **kwargs: Any) -> Any:
            self.tokens.append(kwargs["input_ids"][0].tolist())
            return forward(decoder, *args, **kwargs)

        monkeypatch.setattr(kind, "forward", counted)

    def run(self) -> list[int]:
        """All tokens that were run, in order."""
        return [token for tokens in self.tokens for token in tokens]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exactly_one_forward_over_the_intact_view(architecture: Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = fresh_backbone(architecture)
    policy = tiny_policy(backbone)
    counter = ForwardCounter(backbone.model, monkeypatch)
    decision = policy.prune(run_messages(7), session=None)
    assert decision.pruned, decision.detail
    assert len(decision.receipt["sets"]) == 14
    assert decision.outcome is not None
    state = decision.outcome.evidence.state
    assert state is not None
    # Every token of the intact view once, in order: no second pass, and none over any rewrite.
    assert counter.run() == state.view.token_ids(state.rendering.token_ids).tolist()
    assert decision.receipt["passes"] == 1


def test_no_forward_for_a_request_that_is_not_eligible(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = fresh_backbone("llama")
    counter = ForwardCounter(backbone.model, monkeypatch)
    assert tiny_policy(backbone).prune(run_messages(4), session=None).reason is Reason.TOO_FEW_CANDIDATES
    assert (
        tiny_policy(backbone, risk_threshold=None).prune(run_messages(7), session=None).reason is Reason.ALWAYS_ABSTAINS
    )
    assert counter.run() == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_real_model_decides_the_same_to_the_bit(architecture: Architecture) -> None:
    policy = tiny_policy(tiny_backbone(architecture))
    one, other = (policy.prune(run_messages(7), session=None) for _ in range(2))
    policy.prune(run_messages(6, seed=5), session=None)
    third = policy.prune(run_messages(7), session=None)
    assert one.receipt["sets"] == other.receipt["sets"] == third.receipt["sets"]
    assert one.request == other.request == third.request


def test_a_feature_that_is_not_finite_is_a_failure_and_never_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_finite(backbone: FrozenLM, state: DecisionState, **options: Any) -> CandidateFeatures:
        found = candidate_features(backbone, state, **options)
        found.matrix[0, 0] = np.inf
        return found

    policy = tiny_policy(tiny_backbone("llama"))
    monkeypatch.setattr("drsr.decide.representation.candidate_features", not_finite)
    decision = policy.prune(run_messages(7), session=None)
    assert decision.reason is Reason.INTERNAL_FAILURE
    assert decision.detail.startswith("ScorerError")
    assert not isinstance(decision.error, NonFiniteFeature)


def test_features_of_another_layout_are_a_failure() -> None:
    policy = scripted_policy()
    other = policy.frozen._replace(scorer=ScriptedScorer("another"))
    policy.frozen = other
    decision = policy.prune(request=BODY, session=None)
    assert decision.reason is Reason.INTERNAL_FAILURE
    assert "LayoutMismatch" in decision.detail


def test_a_score_that_is_not_a_number_is_never_within_the_threshold() -> None:
    policy = scripted_policy(scorer=FixedScores(float("nan"), [0.0]))
    decision = policy.prune(request=BODY, session=None)
    assert decision.reason is Reason.OVER_RISK_THRESHOLD
    assert decision.request is BODY


def test_milliseconds_of_every_phase() -> None:
    receipt = scripted_policy().prune(request=BODY, session=None).receipt
    phases = ["read", "freeze", "enumerate", "features", "score", "select", "rewrite", "validate", "total"]
    assert list(receipt["milliseconds"]) == phases
    assert all(spent >= 0 for spent in receipt["milliseconds"].values())


def test_a_threshold_exactly_at_a_score_lets_it_pass() -> None:
    policy = scripted_policy()
    scores = [row["unsafe_score"] for row in policy.prune(request=BODY, session=None).receipt["sets"]]
    for score in scores:
        numbers = replace(policy.numbers, risk_threshold=score)
        rows = (
            Policy(numbers, policy.frozen.scorer, policy.frozen.representation)
            .prune(request=BODY, session=None)
            .receipt["sets"]
        )
        passed = [row["unsafe_score"] for row in rows if row["verdict"] != "over_risk_threshold"]
        assert score in passed or rows[scores.index(score)]["verdict"] == "over_removal_cap"
        assert all(row["unsafe_score"] > score for row in rows if row["verdict"] == "over_risk_threshold")
