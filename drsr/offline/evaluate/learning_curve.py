"""Learning curves: the quality of a scorer by the number of tasks it is fitted on, so that a team knows what more
labels would buy.

The tasks of train and validation are dealt into folds. For every size, the members that score a fold are fitted on that
many tasks of the other folds, the same ones first at every size; so each size judges every state, by members that never
saw its task. The test split is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.calibrate.search import calibrate_cross_fitted
from drsr.offline.params import CalibrateParams, TrainParams
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, some_states
from drsr.offline.train.learners.fit import deal_folds, learner, shuffled
from drsr.offline.train.learners.fold_scores import FoldScores
from drsr.offline.train.metrics import auroc, count_pairs, grouping
from drsr.offline.train.scored_sets import ScoredSets, member_scores

FOLDS = 5


class CurvePoint(NamedTuple):
    """Result of a scorer fitted on a given number of tasks, judged on all states."""

    tasks: int
    """Number of tasks that the members of a fold were fitted on, averaged over the folds."""
    unsafe_auroc: float
    state_pairs: float
    """Pairs of one state whose harms differ meaningfully: how many are ordered rightly."""
    equal_pairs: float
    """The same of pairs of equal cardinality."""
    mean_removal: float
    """Mean removal of the operating point within both limits that removes most; chosen on these same states, so it is
    optimistic."""
    pruned: float
    unsafe_rate: float | None

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def learning_curve(
    frame: TrainingFrame,
    params: TrainParams,
    calibrate: CalibrateParams,
    column_groups: Sequence[str],
    sizes: Sequence[int],
) -> list[CurvePoint]:
    """Return one point per size that leaves tasks out, and one for all tasks. `frame` is train and validation
    joined."""
    fold = deal_folds(frame, params.folds or FOLDS)
    available = min(len(_tasks(frame, fold != number)) for number in np.unique(fold))
    wanted = [*sorted({size for size in sizes if size < available}), None]
    return [_point(frame, params, calibrate, column_groups, fold, size) for size in wanted]


def _point(
    frame: TrainingFrame,
    params: TrainParams,
    calibrate: CalibrateParams,
    column_groups: Sequence[str],
    fold: NDArray[np.int64],
    size: int | None,
) -> CurvePoint:
    fit = learner(params, column_groups)
    names, used = np.array(frame.group_ids), []
    harm, unsafe = np.empty((2, len(params.seeds), len(frame)))
    for number in np.unique(fold):
        tasks = _tasks(frame, fold != number)[:size]
        used.append(len(tasks))
        scorer = fit(some_states(TrainingFrame, frame, (fold != number) & np.isin(names, tasks)))
        mine = fold == number
        rows = mine[frame.state]
        harm[:, rows], unsafe[:, rows] = member_scores(scorer, some_states(ExampleFrame, frame, mine))
    scored = FoldScores(fold, harm, unsafe).scored(frame)
    return judged_point(scored, params.meaningful_gap, calibrate, round(float(np.mean(used))))


def judged_point(
    scored: ScoredSets[TrainingFrame], meaningful_gap: float, calibrate: CalibrateParams, tasks: int
) -> CurvePoint:
    """Judge scores by members that never saw the task of what they score."""
    frame = scored.frame
    pairs = [
        count_pairs(
            scored.predicted_harm, frame.harm, grouping(frame, "state", equal), frame.trajectory, meaningful_gap
        )
        for equal in (False, True)
    ]
    found = calibrate_cross_fitted(scored, calibrate)
    chosen = found.chosen
    return CurvePoint(
        tasks,
        auroc(scored.unsafe_mean, frame.unsafe),
        pairs[0].pooled,
        pairs[1].pooled,
        0.0 if chosen is None else chosen.mean_removal,
        0.0 if chosen is None else chosen.selected / found.table.states,
        None if chosen is None else chosen.unsafe_rate,
    )


def _tasks(frame: TrainingFrame, kept: NDArray[np.bool_]) -> list[str]:
    """Return the tasks of some states, in an order that depends on their names alone."""
    return sorted({name for name, wanted in zip(frame.group_ids, kept, strict=True) if wanted}, key=shuffled)
