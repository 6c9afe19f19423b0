"""Exported trees and linear models score as scikit-learn's own do, learn, and give the same bits again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drsr.offline.params import TrainParams
from drsr.offline.train.learners import linear, trees
from drsr.offline.train.learners.described import describe_frame, described_sets, drawn_weights
from drsr.offline.train.learners.linear import fit_linear
from drsr.offline.train.learners.trees import fit_trees
from drsr.offline.train.metrics import auroc
from drsr.offline.train.scored_sets import member_scores, score_frame
from drsr.scorer.weights import scorer_bytes
from tests.offline.frames import make_frame, params

USED = np.array([0, 1, 2, 4], dtype=np.int32)
FEW: TrainParams = replace(
    params().train,
    seeds=(11, 29),
    trees=replace(params().train.trees, trees=15, learning_rate=0.2, bins=32),
    linear=replace(params().train.linear, inverse_penalty=0.1),
)
TRAIN, VALIDATION = make_frame("train", 24), make_frame("validation", 10)


@pytest.mark.parametrize("learner", ["trees", "linear"])
@pytest.mark.parametrize("retained", [True, False])
def test_the_exported_arrays_predict_as_scikit_learn_does(
    learner: str, retained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = {"trees": trees, "linear": linear}[learner]
    kept: list[tuple[Any, Any]] = []
    fit_member = module.fit_member

    def keeping(*arguments: Any) -> tuple[Any, Any]:
        kept.append(fit_member(*arguments))
        return kept[-1]

    monkeypatch.setattr(module, "fit_member", keeping)
    fit = fit_trees if learner == "trees" else fit_linear
    scorer = fit(TRAIN, FEW, USED, retained_context=retained, workers=1)  # in the order of their seeds
    harm, unsafe = member_scores(scorer, VALIDATION)
    described = describe_frame(VALIDATION, USED, retained_context=retained)
    if learner == "linear":
        seen = describe_frame(TRAIN, USED, retained_context=retained)
        deviation = seen.std(axis=0)
        varies = deviation > 1e-9
        described = np.where(varies, (described - seen.mean(axis=0)) / np.where(varies, deviation, 1), 0.0)
    for number, (classifier, regressor) in enumerate(kept):
        np.testing.assert_allclose(unsafe[number], classifier.predict_proba(described)[:, 1], atol=1e-6)
        np.testing.assert_allclose(harm[number], regressor.predict(described), atol=1e-6)


@pytest.mark.parametrize("fit", [fit_trees, fit_linear])
def test_it_learns_and_gives_the_same_bytes_with_any_number_of_workers(fit: Any) -> None:
    scorer = fit(TRAIN, FEW, USED, retained_context=True, workers=3)
    scored = score_frame(scorer, VALIDATION)
    assert auroc(scored.unsafe_mean, VALIDATION.unsafe) > 0.9
    assert (scored.unsafe_std > 0).any()
    assert scorer_bytes(scorer) == scorer_bytes(fit(TRAIN, FEW, USED, retained_context=True, workers=1))


def test_a_frame_is_described_as_the_scorer_describes() -> None:
    scorer = fit_trees(TRAIN, FEW, USED, retained_context=True)
    described = describe_frame(VALIDATION, USED, retained_context=True)
    logit, harm = scorer.forest.outputs(described).swapaxes(0, 1)
    found_harm, found_unsafe = member_scores(scorer, VALIDATION)
    np.testing.assert_array_equal(found_harm, harm)
    np.testing.assert_allclose(found_unsafe, 1 / (1 + np.exp(-logit)), rtol=1e-12)


def test_members_draw_whole_tasks() -> None:
    frame = make_frame("train", 24, trials=2)
    sets = described_sets(frame, USED, 0.15, retained_context=True)
    weights = drawn_weights(sets.group, sets.unsafe, 11)
    for group in np.unique(sets.group):
        assert len(set(weights[sets.group == group])) == 1
    counts = np.array([weights[sets.group == group][0] for group in np.unique(sets.group)])
    assert counts.sum() == len(counts) == 12
    assert (counts == 0).any()
    assert not np.array_equal(weights, drawn_weights(sets.group, sets.unsafe, 29))


def test_extreme_harms_are_limited() -> None:
    sets = described_sets(TRAIN, USED, 0.01, retained_context=True)
    assert np.abs(sets.harm).max() == 0.01
    assert np.abs(TRAIN.harm).max() > 0.01
