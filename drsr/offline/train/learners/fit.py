"""Fitting the scorer that the parameters name: in the paper's mode, or cross-fitted.

In the paper's mode a scorer is fitted on `train`; `validation` chooses an epoch if there is one to choose. Trees and
linear models have none, so they see nothing of `validation`.

Cross-fitted, both splits are one frame. Its tasks are dealt into folds; the members of a fold are fitted without it and
score it, so that every state has scores of members that never saw its task. The final members are fitted on everything.
Networks need tasks for early stopping: they hold out a fifth of those they receive, in a fold and in the final fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from drsr.errors import FrameError, SettingsError
from drsr.offline.params import TrainParams
from drsr.offline.train.ablations import FULL, Ablation, prepare_frame, used_columns
from drsr.offline.train.evaluations import FOLDS, Evaluation, Quality
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, check_frames, joined, some_states
from drsr.offline.train.learners.described import drawn_weights
from drsr.offline.train.learners.fold_scores import FoldScores, Histograms, shares_by_tenth
from drsr.offline.train.learners.linear import fit_linear
from drsr.offline.train.learners.trees import fit_trees
from drsr.offline.train.metrics import auroc, brier, count_pairs, grouping
from drsr.offline.train.scored_sets import member_scores
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.stack import StackedScorer

if TYPE_CHECKING:
    from drsr.offline.train.fitting import HowToFit

STOPPING_PART = 5
"""One task in this many is held out to stop networks early if there is no split for that."""

Floats = NDArray[np.float64]
Fit = Callable[[TrainingFrame], FrozenScorer]


_LEARNERS: dict[str, Callable[..., FrozenScorer]] = {"trees": fit_trees, "linear": fit_linear}
AVERAGED = {"stack": ("trees", "linear")}
"""By kind: the kinds whose average it is."""


class FittedScorer(NamedTuple):
    scorer: FrozenScorer
    chosen: tuple[Evaluation, ...]
    """Evaluation of each member on tasks that it was not fitted on."""
    history: tuple[Evaluation, ...]
    fold_scores: FoldScores | None = None
    """Cross-fitted: what members that never saw its task say of every set."""
    histograms: Histograms | None = None
    """Cross-fitted: whether the final members score as the fold members do."""


def fit_scorer(
    train: TrainingFrame, validation: TrainingFrame, params: TrainParams, **how: Unpack[HowToFit]
) -> FittedScorer:
    """Fit the scorer of the kind and in the mode that `params` name. See `fitting.train_scorer` for the options."""
    check_frames(train, validation)
    ablation, progress = how.get("ablation", FULL), how.get("progress")
    check_kind(params, ablation)
    if params.scorer == "network" and not params.folds:
        from drsr.offline.train.fitting import train_scorer  # networks alone need torch, which takes seconds to import

        trained = train_scorer(train, validation, params, **how)
        return FittedScorer(trained.ensemble, trained.chosen, trained.history)
    groups = list(how.get("column_groups") or [""] * train.columns)
    train, validation = (prepare_frame(frame, ablation, groups) for frame in (train, validation))
    fit = learner(params, groups, ablation, how.get("workers", 2))
    if not params.folds:
        scorer = fit(train)
        chosen = _judged(scorer, train, validation, params, *member_scores(scorer, validation))
        if progress is not None:
            progress([*chosen])
        return FittedScorer(scorer, chosen, chosen)
    everything = joined(train, validation)
    fold_scores = _cross_fit(everything, params, fit)
    scorer = fit(everything)
    chosen = _judged(scorer, everything, everything, params, fold_scores.harm, fold_scores.unsafe)
    if progress is not None:
        progress([*chosen])
    _, final = member_scores(scorer, everything)
    unseen = np.array([_unseen(everything, params, seed) for seed in params.seeds])
    alike = Histograms(shares_by_tenth(fold_scores.unsafe.ravel()), shares_by_tenth(final[unseen]))
    return FittedScorer(scorer, chosen, chosen, fold_scores, alike)


def check_kind(params: TrainParams, ablation: Ablation) -> None:
    """Refuse an ablation of something that this kind of scorer does not have."""
    if params.scorer != "network" and not ablation.parts.pair_pooling:
        raise SettingsError(f"a scorer of the kind {params.scorer!r} has no pair pooling to leave out")


def deal_folds(frame: TrainingFrame, folds: int) -> NDArray[np.int64]:
    """Return the fold of each state: tasks go, in the order of a hash of their names, each to the fold with the fewest
    states so far.

    The order follows the names, so that the same data gives the same folds in whatever order it is read.
    """
    names = sorted(set(frame.group_ids), key=shuffled)
    if len(names) < folds:
        raise FrameError(
            f"{len(names)} tasks cannot be dealt into {folds} folds", where=frame.split, hint="label more trajectories"
        )
    sizes = {name: frame.group_ids.count(name) for name in names}
    loads, fold_of = [0] * folds, {}
    for name in names:
        fold = loads.index(min(loads))
        fold_of[name] = fold
        loads[fold] += sizes[name]
    return np.array([fold_of[name] for name in frame.group_ids], dtype=np.int64)


def shuffled(name: str) -> str:
    """Sort tasks by this: an order that depends on their names alone."""
    return hashlib.sha256(f"fold/1 {name}".encode()).hexdigest()


def _cross_fit(frame: TrainingFrame, params: TrainParams, fit: Fit) -> FoldScores:
    fold = deal_folds(frame, params.folds)
    harm, unsafe = np.empty((2, len(params.seeds), len(frame)))
    for number in range(params.folds):
        scorer = fit(some_states(TrainingFrame, frame, fold != number))
        rows = fold[frame.state] == number
        harm[:, rows], unsafe[:, rows] = member_scores(scorer, some_states(ExampleFrame, frame, fold == number))
    return FoldScores(fold, harm, unsafe)


def learner(params: TrainParams, groups: Sequence[str], ablation: Ablation = FULL, workers: int = 2) -> Fit:
    """Return the function that fits a scorer of the kind that `params` name on a frame that was prepared already."""
    if params.scorer == "network":
        return lambda frame: _fit_network(frame, params, ablation, groups, workers)
    used = np.flatnonzero(used_columns(ablation, groups, params.column_groups)).astype(np.int32)
    retained = ablation.parts.retained_context
    learners = [_LEARNERS[name] for name in AVERAGED.get(params.scorer, (params.scorer,))]

    def fit(frame: TrainingFrame) -> FrozenScorer:
        parts = [learn(frame, params, used, retained_context=retained, workers=workers) for learn in learners]
        return parts[0] if len(parts) == 1 else StackedScorer(frame.layout_hash, params.seeds, tuple(parts))

    return fit


def _fit_network(
    frame: TrainingFrame, params: TrainParams, ablation: Ablation, groups: Sequence[str], workers: int
) -> FrozenScorer:
    from drsr.offline.train.fitting import train_scorer

    fitted, stopped_by = _divided(frame)
    # The frame was prepared, and a mismatched state must not be exchanged once more.
    plain = ablation if not ablation.mismatched_state else FULL
    return train_scorer(fitted, stopped_by, params, ablation=plain, column_groups=groups, workers=workers).ensemble


def normalised_on(train: TrainingFrame, validation: TrainingFrame, params: TrainParams) -> TrainingFrame:
    """Return the states that a network's normaliser and weights are fitted on: `train`, or, if it is cross-fitted,
    those of both splits that it is not stopped by."""
    return _divided(joined(train, validation))[0] if params.folds else train


def _divided(frame: TrainingFrame) -> tuple[TrainingFrame, TrainingFrame]:
    """Return the states that networks are fitted on, and those that they stop by."""
    stops = _stopping(frame)
    fitted = some_states(TrainingFrame, frame, ~stops, "train")
    return fitted, some_states(TrainingFrame, frame, stops, "validation")


def _stopping(frame: TrainingFrame) -> NDArray[np.bool_]:
    """Return the states that networks stop by: those of every fifth task."""
    held_out = set(sorted(set(frame.group_ids), key=shuffled)[::STOPPING_PART])
    return np.array([name in held_out for name in frame.group_ids])


def _unseen(frame: TrainingFrame, params: TrainParams, seed: int) -> NDArray[np.bool_]:
    """Return the sets whose task this member of a scorer fitted on the frame was not fitted on."""
    if params.scorer == "network":
        return _stopping(frame)[frame.state]
    unseen: NDArray[np.bool_] = drawn_weights(frame.state_group[frame.state], frame.unsafe, seed) == 0
    return unseen


def _judged(
    scorer: FrozenScorer, fitted: TrainingFrame, frame: TrainingFrame, params: TrainParams, harm: Floats, unsafe: Floats
) -> tuple[Evaluation, ...]:
    """Return one evaluation per member: the loss on what it was fitted on, the quality on what it was not."""
    within = grouping(frame, "state", equal_cardinality=True)
    split = FOLDS if frame is fitted else frame.split
    _, seen = member_scores(scorer, fitted)
    found = []
    for number, seed in enumerate(scorer.seeds):
        pairs = count_pairs(harm[number], frame.harm, within, frame.trajectory, params.meaningful_gap)
        quality = Quality(
            unsafe_auroc=auroc(unsafe[number], frame.unsafe),
            pair_accuracy=pairs.pooled if pairs.pairs.any() else 0.0,
            negative_brier=-brier(unsafe[number], frame.unsafe),
        )
        epoch = params.trees.trees if params.scorer in ("trees", "stack") else 1
        loss = brier(seen[number], fitted.unsafe)
        found.append(Evaluation(epoch, seed, loss, quality, is_best=True, stopped=True, split=split))
    return tuple(found)
