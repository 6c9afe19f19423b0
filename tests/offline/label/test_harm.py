"""Every set of every state: the engine against one forward per context, on real and tiny models."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from drsr.backbone import embedded, installing
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.candidates import DecisionState
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.label.harm import HARM_TOLERANCE, StateHarms, contexts_of, measure_harm, measure_states
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.request.contracts import TokenIds
from drsr.request.history import delete
from drsr.request.rendering import render
from drsr.request.view import caps_for
from tests.small_states import small_states
from tests.tiny_backbones import ARCHITECTURES, DEVICES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture

TOLERANCE = {"llama": 1e-5, "qwen3": 1e-5, "qwen3_5": 1e-4}
"""In nats per token."""


def compare(backbone: FrozenLM, states: list[tuple[DecisionState, TokenIds]], tolerance: float) -> list[StateHarms]:
    """Measure by shared prefixes and check every number against the direct method."""
    measured = measure_states(TargetNll(backbone), states)
    assert measured.method is Method.SHARED_PREFIX
    results = []
    for (state, target), result in zip(states, measured.results, strict=True):
        assert isinstance(result, StateHarms)
        assert result.excluded == {}
        expected = list(measure_harm(backbone, state, target))
        assert [harm.deletion_set for harm in result.harms] == [harm.deletion_set for harm in expected]
        assert len(result.harms) == 2 ** len(state.candidates) - 1
        assert result.intact_nll == pytest.approx(expected[0].intact_nll, abs=tolerance)
        for found, wanted in zip(result.harms, expected, strict=True):
            assert found.harm == pytest.approx(wanted.harm, abs=tolerance)
            assert found.unsafe == (found.harm > HARM_TOLERANCE)
        results.append(result)
    assert measured.tokens_processed < 0.75 * measured.tokens_in_pairs
    return results


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_the_direct_computation(architecture: Architecture, device: str) -> None:
    backbone = tiny_backbone(architecture, device)
    results = compare(backbone, small_states(backbone), TOLERANCE[architecture])
    assert [len(result.harms) for result in results] == [7, 15]
    assert max(abs(harm.harm) for result in results for harm in result.harms) > 100 * TOLERANCE[architecture]


@pytest.mark.parametrize("device", DEVICES)
def test_equals_the_direct_computation_on_the_embedded_model(device: str) -> None:
    backbone = FrozenLM.from_folder(installing.fetch(embedded.MODEL), name=embedded.NAME, device=device)
    results = compare(backbone, small_states(backbone), 1e-5)
    assert [len(result.harms) for result in results] == [7, 15]
    assert max(harm.harm for result in results for harm in result.harms) > HARM_TOLERANCE


def test_contexts_are_the_rewritten_requests() -> None:
    """Each context is what rendering the rewritten request from scratch gives; nothing is added up."""
    backbone = tiny_backbone("llama")
    ((state, _),) = small_states(backbone, (6,))
    contexts = contexts_of(state)
    assert np.array_equal(contexts.intact, state.rendering.token_ids)
    subsets = [set(members) for size in range(1, 5) for members in combinations(range(4), size)]
    assert [set(deletion_set.members) for deletion_set, _ in contexts.deleted] == subsets
    for deletion_set, context in contexts.deleted:
        rewritten = delete(state.history, [state.candidates[member].block for member in deletion_set.members])
        assert np.array_equal(context, render(rewritten.request, backbone.tokenizer).token_ids)


def test_a_state_that_cannot_be_measured_is_excluded_with_its_reason() -> None:
    backbone = tiny_backbone("llama")
    (first, target), (second, other) = small_states(backbone)
    cap = caps_for(backbone.window).target
    states = [(first, target[:0]), (second, other), (second, np.resize(other, cap + 1))]
    empty, measured, long = measure_states(TargetNll(backbone), states).results
    assert isinstance(empty, Exclusion)
    assert empty.reason is ExclusionReason.EMPTY_TARGET
    assert isinstance(long, Exclusion)
    assert long.reason is ExclusionReason.TARGET_TOO_LONG
    assert isinstance(measured, StateHarms)
    assert len(measured.harms) == 15


def test_sets_that_cannot_be_measured_are_excluded_one_by_one() -> None:
    """A token that occurs in one candidate only breaks the logits: the sets that delete the candidate are fine."""
    backbone = fresh_backbone("qwen3")
    ((state, target),) = small_states(backbone, (6,))
    intact = contexts_of(state)
    deleted_with_third = [context for found, context in intact.deleted if found.mask & 0b100]
    elsewhere = set(np.concatenate([*deleted_with_third, target]).tolist())
    unique = [token for token in intact.intact.tolist() if token not in elsewhere]
    assert unique
    # The intact context cannot be scored, so no set of the state can have a harm.
    backbone.model.get_input_embeddings().weight.data[unique[0]] = float("nan")
    (result,) = measure_states(TargetNll(backbone), [(state, target)]).results
    assert isinstance(result, Exclusion)
    assert result.reason is ExclusionReason.NON_FINITE


def test_an_excluded_set_is_listed_by_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    ((state, target),) = small_states(backbone, (5,))
    scorer = TargetNll(backbone)
    lost = Exclusion(ExclusionReason.OUT_OF_MEMORY, "planted")
    score = scorer.score

    def losing(*arguments: object) -> object:
        scores = score(*arguments)  # type: ignore[arg-type]
        return scores._replace(nlls=(*scores.nlls[:3], lost, *scores.nlls[4:]))

    monkeypatch.setattr(scorer, "score", losing)
    (result,) = measure_states(scorer, [(state, target)]).results
    assert isinstance(result, StateHarms)
    assert result.excluded == {0b100: lost}  # third of the sets, after {0} and {1}
    assert [harm.deletion_set.mask for harm in result.harms] == [0b1, 0b10, 0b11, 0b101, 0b110, 0b111]


def test_any_backbone_can_measure() -> None:
    """The double has no modules to share prefixes with; the same call computes directly."""
    backbone = ScriptedBackbone()
    states = small_states(backbone)
    measured = measure_states(TargetNll(backbone), states)
    assert measured.method is Method.DIRECT
    for (state, target), result in zip(states, measured.results, strict=True):
        assert isinstance(result, StateHarms)
        assert list(result.harms) == list(measure_harm(backbone, state, target))


def test_states_keep_their_watches() -> None:
    backbone = tiny_backbone("llama")
    states = small_states(backbone)

    class Counting:
        attention_layers = frozenset({2})

        def __init__(self) -> None:
            self.positions = 0
            self.keys = 0

        def hidden(self, layer: int, start: int, states: object) -> None:
            if layer == 1:
                assert start == self.positions
                self.positions += len(states)  # type: ignore[arg-type]

        def attention(self, layer: int, query: object, keys: object) -> None:
            self.keys = keys.shape[1]  # type: ignore[attr-defined]

    watch = Counting()
    measure_states(TargetNll(backbone), states, {1: watch})
    assert watch.positions == watch.keys == len(contexts_of(states[1][0]).intact)
