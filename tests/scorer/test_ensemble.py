"""The ensemble as a SetScorer: aggregation, bit-stable scores, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from drsr.errors import LayoutMismatch, ScorerError
from drsr.request.contracts import SetScorer, SetScores
from drsr.scorer.ensemble import Ensemble, HarmScale, fit_normaliser
from drsr.scorer.network import initial_parameters

COLUMNS = 30


def make_ensemble(columns: int = COLUMNS, seeds: tuple[int, ...] = (11, 29, 47)) -> Ensemble:
    members = [initial_parameters(columns, seed) for seed in seeds]
    return Ensemble(
        layout_hash="layout",
        seeds=seeds,
        normaliser=fit_normaliser(np.random.default_rng(9).normal(3, 2, (50, columns)).astype(np.float32)),
        harm_scale=HarmScale(0.01, 0.05),
        parameters={name: np.concatenate([member[name] for member in members]) for name in members[0]},
    )


FEATURES = np.random.default_rng(5).normal(3, 2, (4, COLUMNS)).astype(np.float32)
SAVINGS = [100, 200, 300, 400]
MASKS = [mask for mask in range(1, 16) if mask.bit_count() <= 3]
DIRECT = [sum(SAVINGS[place] for place in range(4) if mask >> place & 1) for mask in MASKS]


def test_fourteen_sets_in_one_call() -> None:
    scorer: SetScorer = make_ensemble()
    scores = scorer.score(FEATURES, SAVINGS, MASKS, DIRECT)
    assert all(column.shape == (14,) for column in scores)
    assert ((scores.unsafe_mean > 0) & (scores.unsafe_mean < 1)).all()
    assert (scores.unsafe_std > 0).all()


def test_the_ensemble_is_the_mean_and_the_population_deviation_of_its_members() -> None:
    ensemble = make_ensemble()
    scores = ensemble.score(FEATURES, SAVINGS, MASKS, DIRECT)
    harm, unsafe = ensemble.member_scores(FEATURES, SAVINGS, MASKS, DIRECT)
    np.testing.assert_allclose(scores.predicted_harm, harm.sum(axis=0) / 3)
    np.testing.assert_allclose(scores.unsafe_mean, unsafe.sum(axis=0) / 3)
    squares = ((unsafe - unsafe.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(scores.unsafe_std, np.sqrt(squares / 3))
    np.testing.assert_allclose(scores.unsafe_score(0.5), scores.unsafe_mean + 0.5 * scores.unsafe_std)
    np.testing.assert_array_equal(scores.unsafe_score(0.0), scores.unsafe_mean)


def test_a_set_scores_the_same_bits_whatever_else_is_asked() -> None:
    """A threshold is one observed score: it must be met again exactly."""
    ensemble = make_ensemble()
    everything = ensemble.score(FEATURES, SAVINGS, MASKS, DIRECT)
    for number, (mask, saving) in enumerate(zip(MASKS, DIRECT, strict=True)):
        alone = ensemble.score(FEATURES, SAVINGS, [mask], [saving])
        assert SetScores(*(column[number : number + 1] for column in everything)) == alone
    order = np.random.default_rng(0).permutation(14)
    shuffled = ensemble.score(FEATURES, SAVINGS, [MASKS[i] for i in order], [DIRECT[i] for i in order])
    np.testing.assert_array_equal(shuffled.unsafe_mean, everything.unsafe_mean[order])


def test_the_order_of_candidates_does_not_matter() -> None:
    ensemble, order = make_ensemble(), [2, 0, 3, 1]
    scores = ensemble.score(FEATURES, SAVINGS, MASKS, DIRECT)
    moved = [sum(1 << order.index(place) for place in range(4) if mask >> place & 1) for mask in MASKS]
    again = ensemble.score(FEATURES[order], [SAVINGS[place] for place in order], moved, DIRECT)
    np.testing.assert_allclose(again.unsafe_mean, scores.unsafe_mean, atol=1e-6)
    np.testing.assert_allclose(again.predicted_harm, scores.predicted_harm, atol=1e-6)


def test_harm_is_restored_to_nats() -> None:
    ensemble = make_ensemble()
    harm, _ = ensemble.member_scores(FEATURES, SAVINGS, [1], [100])
    rescaled = Ensemble("layout", ensemble.seeds, ensemble.normaliser, HarmScale(0.0, 1.0), ensemble.parameters)
    raw, _ = rescaled.member_scores(FEATURES, SAVINGS, [1], [100])
    np.testing.assert_allclose(harm, raw * 0.05 + 0.01)


def test_the_normaliser_standardises_and_ignores() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(5, 3, (200, 4)).astype(np.float32)
    values[:, 2] = 7.1  # never varies
    normaliser = fit_normaliser(values, used=np.array([True, False, True, True]))
    z = normaliser(values)
    np.testing.assert_allclose(z[:, [0, 3]].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(z[:, [0, 3]].std(axis=0), 1, atol=1e-5)
    assert not normaliser(values + 1e6)[:, [1, 2]].any()  # neither the unused nor the constant column gets through


@pytest.mark.parametrize(
    ("features", "savings", "masks", "direct", "error"),
    [
        (FEATURES[:, :-1], SAVINGS, [1], [100], LayoutMismatch),
        (np.tile(FEATURES, (2, 1))[:5], [1] * 5, [1], [100], ScorerError),
        (FEATURES[:0], [], [], [], ScorerError),
        (np.where(FEATURES > 5, np.nan, FEATURES), SAVINGS, [1], [100], ScorerError),
        (FEATURES, SAVINGS[:3], [1], [100], ScorerError),
        (FEATURES, [0, 1, 1, 1], [1], [100], ScorerError),
        (FEATURES, SAVINGS, [1, 2], [100], ScorerError),
        (FEATURES, SAVINGS, [1, 1], [100, 100], ScorerError),
        (FEATURES, SAVINGS, [16], [100], ScorerError),
        (FEATURES, SAVINGS, [0], [100], ScorerError),
    ],
)
def test_what_cannot_be_scored_is_refused(
    features: np.ndarray, savings: list[int], masks: list[int], direct: list[int], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make_ensemble().score(features, savings, masks, direct)


def test_an_output_that_is_not_finite_is_an_error_not_a_score() -> None:
    ensemble = make_ensemble()
    ensemble.parameters["risk_heads.bias"][0, 0] = np.nan
    with pytest.raises(ScorerError, match="not finite"):
        ensemble.score(FEATURES, SAVINGS, [1], [100])


def test_no_sets_no_scores() -> None:
    assert all(len(column) == 0 for column in make_ensemble().score(FEATURES, SAVINGS, [], []))


def test_deciding_needs_no_torch() -> None:
    imports = "import sys, drsr.scorer.weights, drsr.decide.selection"
    code = f"{imports}; sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
