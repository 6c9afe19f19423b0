"""Nested folds: the same as fitting, searching and deciding fold by fold, and nothing is chosen by what judges it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drsr.decide.selection import select
from drsr.errors import SettingsError
from drsr.offline.calibrate.search import calibrate_cross_fitted
from drsr.offline.evaluate import nested_folds
from drsr.offline.evaluate.nested_folds import CHOSEN, Comparison, Outcome, compare_kinds, parse_kind
from drsr.offline.params import TrainParams
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, joined, some_states
from drsr.offline.train.learners import fit
from drsr.offline.train.learners.fit import deal_folds, learner
from drsr.offline.train.learners.fold_scores import FoldScores
from drsr.offline.train.learners.linear import fit_linear
from drsr.offline.train.scored_sets import member_scores
from tests.offline.frames import make_frame, params, rows_of

GROUPS = ["structural"] * 10 + ["attention"] * 20
EVERYTHING = joined(*(make_frame(split, 12, columns=30) for split in ("train", "validation")))
TRAIN = replace(params().train, seeds=(11, 29), folds=3)
LOOSE = replace(params().calibrate, max_unsafe_rate=0.3, max_mean_harm=0.2)


def test_the_slow_twin() -> None:
    """Fit, search and decide for one outer fold after another, each inner fold by a fit of its own."""
    linear = parse_kind("linear", TRAIN)
    (outcome, _) = compare_kinds(EVERYTHING, [linear], LOOSE, GROUPS).outcomes
    fold, fitting = deal_folds(EVERYTHING, 3), learner(linear.params, GROUPS)
    removals: list[float] = []
    unsafe: list[bool] = []
    for outer in range(3):
        rest = some_states(TrainingFrame, EVERYTHING, fold != outer)
        inner = fold[fold != outer]
        harm, score = np.empty((2, 2, len(rest)))
        for number in np.unique(inner):
            scorer = fitting(some_states(TrainingFrame, rest, inner != number))
            rows = (inner == number)[rest.state]
            harm[:, rows], score[:, rows] = member_scores(scorer, some_states(ExampleFrame, rest, inner == number))
        point = calibrate_cross_fitted(FoldScores(inner, harm, score).scored(rest), LOOSE).chosen
        assert point is not None
        mine = some_states(TrainingFrame, EVERYTHING, fold == outer)
        judged = FoldScores(fold[fold == outer], *member_scores(fitting(rest), mine)).scored(mine)
        rule = point.rule(LOOSE.removal_cap)
        sets = judged.proposed(point.uncertainty_coefficient)
        for state, tokens in enumerate(mine.request_tokens):
            rows = np.flatnonzero(mine.state == state)
            choice = select(rows_of(sets, rows), int(tokens), rule).chosen
            removals.append(0.0 if choice is None else mine.direct_saving[rows[choice]] / tokens)
            unsafe += [] if choice is None else [bool(mine.unsafe[rows[choice]])]
    assert unsafe
    assert outcome.mean_removal == pytest.approx(np.mean(removals))
    assert outcome.pruned == len(unsafe) / len(removals)
    assert outcome.unsafe_rate == pytest.approx(np.mean(unsafe))


def test_kinds_side_by_side() -> None:
    told: list[int] = []
    kinds = [parse_kind(text, TRAIN) for text in ("linear", "linear:structural")]
    assert kinds[1].params.column_groups == ("structural",)
    found = compare_kinds(
        EVERYTHING, kinds, LOOSE, GROUPS, progress=lambda done, total, what: told.append(total - done)
    )
    assert sorted(set(told)) == [*range(12)]  # six fits of each
    assert told[-1] == 0
    assert [row.name for row in found.outcomes] == ["linear", "linear:structural", CHOSEN]
    first, second, chosen = found.outcomes
    assert first.unsafe_auroc != second.unsafe_auroc
    assert chosen.unsafe_auroc is None
    for removal, *others in zip(chosen.fold_removals, first.fold_removals, second.fold_removals, strict=True):
        assert removal in others
    assert found.best in (None, first, second)


def test_a_stack_beside_its_parts_takes_no_fits_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:

    def loose(frame: TrainingFrame, params: TrainParams, *rest: Any, **how: Any) -> Any:
        """In the place of trees, which take ten times as long."""
        return fit_linear(frame, replace(params, linear=replace(params.linear, inverse_penalty=0.1)), *rest, **how)

    monkeypatch.setitem(fit._LEARNERS, "trees", loose)
    parts = [parse_kind(text, TRAIN) for text in ("trees", "linear")]
    stack, narrow = (parse_kind(text, TRAIN) for text in ("stack", "stack:structural"))
    (alone, _) = compare_kinds(EVERYTHING, [stack], LOOSE, GROUPS).outcomes
    fitted: list[str] = []

    def watched(params: TrainParams, *rest: Any, **how: Any) -> Any:
        fitted.append(params.scorer)
        return learner(params, *rest, **how)

    monkeypatch.setattr(nested_folds, "learner", watched)
    trees, linear, beside, other, _ = compare_kinds(EVERYTHING, [*parts, stack, narrow], LOOSE, GROUPS).outcomes
    assert beside == alone
    assert alone.unsafe_auroc not in (trees.unsafe_auroc, linear.unsafe_auroc, other.unsafe_auroc)
    assert fitted == ["trees", "linear", "stack"]  # the narrow one reads other columns than its parts here


def outcome(name: str, unsafe_rate: float | None, *removals: float) -> Outcome:
    return Outcome(name, 0.7, 0.6, 0.5, float(np.mean(removals)), 0.5, unsafe_rate, removals)


def test_the_best_keeps_to_the_limit_and_says_by_how_little_it_leads() -> None:
    rows = [outcome("network", 0.2, 0.5, 0.5), outcome("linear", 0.1, 0.1, 0.2), outcome("trees", 0.1, 0.2, 0.3)]
    found = Comparison([*rows, outcome(CHOSEN, 0.05, 0.9, 0.9)], 0.1)
    assert found.best is rows[2]
    assert "Best: trees." in found.said
    assert "+10.00% against linear, standard error over folds 0.00%." in found.said
    close = Comparison([outcome("linear", 0.1, 0.1, 0.3), outcome("trees", 0.1, 0.2, 0.24)], 0.1)
    assert "too close to choose by" in close.said
    none = Comparison(rows, 0.05).said
    assert none.startswith("No kind keeps to an unsafe rate of 0.05")
    assert none.endswith("the nearest is linear, 0.100, which removes 15.00%.")
    assert Comparison([outcome("linear", None, 0.0, 0.0)], 0.05).said.endswith("was not chosen by.")


def test_names_of_kinds() -> None:
    with pytest.raises(SettingsError, match="'oracle' is not a kind of scorer"):
        parse_kind("oracle", TRAIN)
    held_back = parse_kind("network-regularised:attention+structural", TRAIN).params
    assert (held_back.scorer, held_back.column_groups) == ("network", ("attention", "structural"))
    assert held_back.weight_decay > TRAIN.weight_decay
    assert held_back.patience < TRAIN.patience
