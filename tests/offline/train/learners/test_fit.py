"""Fitting by kind and mode: nobody is scored by a member that saw its task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drsr.errors import FrameError, OneClassOnly, SettingsError
from drsr.offline.params import TrainParams
from drsr.offline.train.ablations import find_ablation
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, joined, some_states
from drsr.offline.train.fitting import train_scorer
from drsr.offline.train.learners.fit import deal_folds, fit_scorer
from drsr.offline.train.learners.fold_scores import read_fold_scores
from drsr.offline.train.metrics import auroc
from drsr.offline.train.scored_sets import member_scores
from drsr.scorer.ensemble import Ensemble
from drsr.scorer.linear import LinearScorer
from drsr.scorer.stack import StackedScorer
from drsr.scorer.trees import TreeScorer
from drsr.scorer.weights import scorer_bytes
from tests.offline.frames import make_frame, params

QUICK: TrainParams = replace(
    params().train,
    seeds=(11, 29),
    max_epochs=10,
    trees=replace(params().train.trees, trees=5, learning_rate=0.3, bins=16),
    linear=replace(params().train.linear, inverse_penalty=0.1),
)
GROUPS = ["structural", "structural", "attention", "hidden", "projection", "projection"]
TRAIN, VALIDATION = make_frame("train", 16, trials=2), make_frame("validation", 8, trials=2)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("network", Ensemble), ("trees", TreeScorer), ("linear", LinearScorer), ("stack", StackedScorer)],
)
def test_each_kind_is_fitted_on_train_and_judged_on_validation(kind: str, expected: type) -> None:
    fitted = fit_scorer(TRAIN, VALIDATION, replace(QUICK, scorer=kind))
    assert type(fitted.scorer) is expected
    assert fitted.fold_scores is None
    assert [row.seed for row in fitted.chosen] == [11, 29]
    _, unsafe = member_scores(fitted.scorer, VALIDATION)
    for number, row in enumerate(fitted.chosen):
        assert row.quality.unsafe_auroc == pytest.approx(auroc(unsafe[number], VALIDATION.unsafe), abs=1e-4)
    if kind == "network":
        assert scorer_bytes(fitted.scorer) == scorer_bytes(train_scorer(TRAIN, VALIDATION, QUICK).ensemble)


@pytest.mark.parametrize("kind", ["network", "trees", "linear", "stack"])
def test_cross_fitted_scores_are_those_of_members_that_never_saw_the_task(kind: str) -> None:
    """The slow twin: change every label of one fold, and its own scores must not move."""
    wanted = replace(QUICK, scorer=kind, folds=3, seeds=(11,), max_epochs=5)
    fitted = fit_scorer(TRAIN, VALIDATION, wanted)
    everything = joined(TRAIN, VALIDATION)
    folds = fitted.fold_scores
    assert folds is not None
    assert fitted.histograms is not None
    assert sum(fitted.histograms.fold) == pytest.approx(1)
    assert sum(fitted.histograms.final) == pytest.approx(1)
    mine = folds.fold == 0
    tasks = np.array(everything.group_ids)
    assert not set(tasks[mine]) & set(tasks[~mine])
    rows = mine[everything.state]
    harm = np.where(rows, -everything.harm, everything.harm)
    changed = replace(everything, harm=harm, unsafe=harm > 0.02)
    split = len(TRAIN.state_ids)
    first = np.arange(len(everything.state_ids)) < split
    parts = some_states(TrainingFrame, changed, first), some_states(TrainingFrame, changed, ~first, "validation")
    again = fit_scorer(*parts, wanted)
    assert again.fold_scores is not None
    np.testing.assert_array_equal(again.fold_scores.unsafe[:, rows], folds.unsafe[:, rows])
    assert not np.array_equal(again.fold_scores.unsafe[:, ~rows], folds.unsafe[:, ~rows])
    assert scorer_bytes(again.scorer) != scorer_bytes(fitted.scorer)  # the final members see everything


def test_fold_scores_are_kept_and_read_again() -> None:
    fitted = fit_scorer(TRAIN, VALIDATION, replace(QUICK, scorer="linear", folds=4))
    everything = joined(TRAIN, VALIDATION)
    assert fitted.fold_scores is not None
    again = read_fold_scores(fitted.fold_scores.to_bytes(), everything)
    assert again.to_bytes() == fitted.fold_scores.to_bytes()
    scored = again.scored(everything)
    np.testing.assert_array_equal(scored.unsafe_mean, fitted.fold_scores.unsafe.mean(axis=0))


def test_folds_depend_on_names_and_not_on_order() -> None:
    everything = joined(TRAIN, VALIDATION)
    fold = deal_folds(everything, 4)
    assert np.bincount(fold).min() >= len(everything.state_ids) // 4 - 4
    backwards = joined(VALIDATION, TRAIN)
    by_name = dict(zip(everything.group_ids, fold.tolist(), strict=True))
    assert [by_name[name] for name in backwards.group_ids] == deal_folds(backwards, 4).tolist()
    with pytest.raises(FrameError, match="cannot be dealt into 90 folds"):
        deal_folds(everything, 90)


def test_only_the_groups_of_columns_that_are_wanted_are_read() -> None:
    wanted = replace(QUICK, scorer="trees", column_groups=("structural",))
    scorer = fit_scorer(TRAIN, VALIDATION, wanted, column_groups=GROUPS).scorer
    assert isinstance(scorer, TreeScorer)
    assert scorer.used.tolist() == [0, 1]
    network = fit_scorer(TRAIN, VALIDATION, replace(wanted, scorer="network"), column_groups=GROUPS).scorer
    assert isinstance(network, Ensemble)
    assert (network.normaliser.inverse_scale > 0).tolist() == [True, True, False, False, False, False]
    with pytest.raises(SettingsError, match="keeps text"):
        fit_scorer(TRAIN, VALIDATION, replace(wanted, column_groups=("text",)), column_groups=GROUPS)


def test_an_ablation_of_what_trees_do_not_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="no pair pooling"):
        fit_scorer(TRAIN, VALIDATION, replace(QUICK, scorer="trees"), ablation=find_ablation("no-pair-pooling"))
    without = fit_scorer(
        TRAIN, VALIDATION, replace(QUICK, scorer="trees"), ablation=find_ablation("no-retained-context")
    )
    assert isinstance(without.scorer, TreeScorer)
    assert not without.scorer.retained_context


def test_some_states_of_a_frame() -> None:
    kept = np.zeros(len(TRAIN.state_ids), dtype=np.bool_)
    kept[[1, 4]] = True
    part = some_states(ExampleFrame, TRAIN, kept)
    assert part.state_ids == (TRAIN.state_ids[1], TRAIN.state_ids[4])
    rows = np.isin(TRAIN.state, [1, 4])
    np.testing.assert_array_equal(part.harm, TRAIN.harm[rows])
    np.testing.assert_array_equal(part.state, (TRAIN.state[rows] == 4).astype(np.int64))
    both = joined(TRAIN, VALIDATION)
    assert len(both) == len(TRAIN) + len(VALIDATION)
    np.testing.assert_array_equal(some_states(ExampleFrame, both, np.arange(len(both.state_ids)) < 32).mask, TRAIN.mask)
    with pytest.raises(OneClassOnly):
        some_states(TrainingFrame, replace(TRAIN, harm=np.abs(TRAIN.harm) + 1, unsafe=TRAIN.harm < 99), kept)
