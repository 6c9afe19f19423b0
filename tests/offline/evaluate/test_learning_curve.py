"""Learning curves: more tasks teach more, and nothing is judged by who saw it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drsr.offline.evaluate.learning_curve import learning_curve
from drsr.offline.train.examples import joined
from drsr.offline.train.learners.fit import fit_scorer
from drsr.offline.train.metrics import auroc
from tests.offline.frames import make_frame, params

GROUPS = [""] * 30
TRAIN, VALIDATION = (make_frame(split, 20, columns=30) for split in ("train", "validation"))
LINEAR = replace(params().train, scorer="linear", seeds=(11, 29), folds=4)


def test_more_tasks_teach_more() -> None:
    everything = joined(TRAIN, VALIDATION)
    points = learning_curve(everything, LINEAR, params().calibrate, GROUPS, [4, 12, 1_000])
    assert [point.tasks for point in points] == [4, 12, 30]  # and all, however many were asked for
    assert points[-1].unsafe_auroc > points[0].unsafe_auroc
    assert points[-1].state_pairs > 0.5
    assert all(point.unsafe_rate is None or point.unsafe_rate <= 0.10 for point in points)


def test_the_point_of_all_tasks_is_what_cross_fitting_gives() -> None:
    folds = fit_scorer(TRAIN, VALIDATION, LINEAR).fold_scores
    assert folds is not None
    everything = joined(TRAIN, VALIDATION)
    (point,) = learning_curve(everything, LINEAR, params().calibrate, GROUPS, [])
    assert point.unsafe_auroc == pytest.approx(auroc(folds.scored(everything).unsafe_mean, everything.unsafe))
