"""Guessing a set's harm from its members' own harms: the rules that joint measurement is compared with.

Measured singleton harms are exact; predicted ones come from a scorer. Aggregation sees nothing of the other members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import (
    Bootstrap,
    Metric,
    auroc_metric,
    count_pairs,
    draw_trajectories,
    grouping,
    pair_metrics,
)
from drsr.scorer.network import MAX_CANDIDATES

Floats = NDArray[np.float64]

RULES: dict[str, Callable[[Floats], Floats]] = {
    "sum": lambda harms: np.nansum(harms, axis=1),
    "mean": lambda harms: np.nanmean(harms, axis=1),
    "max": lambda harms: np.nanmax(harms, axis=1),
    "min": lambda harms: np.nanmin(harms, axis=1),
}
"""From (sets, 4) harms of the deleted candidates alone, NaN for those not deleted."""


class JointMetrics(NamedTuple):
    """The metrics of predictions for sets of two or more."""

    any_cardinality: Metric
    """Pairs of one state."""
    equal_cardinality: Metric
    """Pairs of one state and cardinality."""
    unsafe_auroc: Metric


class SingletonRule(NamedTuple):
    rule: str
    metrics: JointMetrics


def singleton_harms(frame: ExampleFrame, harm: Floats) -> Floats:
    """Return the harm of each candidate alone, (states, 4), NaN if its singleton has no row.

    `harm` is one value per set: the frame's own for measured singletons, a scorer's for predicted ones.
    """
    alone = np.full((len(frame.state_ids), MAX_CANDIDATES), np.nan)
    single = np.flatnonzero(frame.cardinality == 1)
    member = np.log2(frame.mask[single]).astype(np.int64)
    alone[frame.state[single], member] = harm[single]
    return alone


def aggregate(frame: ExampleFrame, alone: Floats, rule: str) -> Floats:
    """Return the rule's guess for every set; NaN if a member's own harm is unknown."""
    deleted = (frame.mask[:, None] >> np.arange(MAX_CANDIDATES)) & 1 == 1
    harms = np.where(deleted, alone[frame.state], np.nan)
    guess = np.full(len(frame), np.nan)
    known = ~(np.isnan(harms) & deleted).any(axis=1)
    guess[known] = RULES[rule](harms[known])
    return guess


def evaluate_rules(
    frame: ExampleFrame, harm: Floats, meaningful_gap: float, bootstrap: Bootstrap
) -> list[SingletonRule]:
    """Return every rule on the sets of two or more, from these singleton harms."""
    alone = singleton_harms(frame, harm)
    guesses = {rule: aggregate(frame, alone, rule) for rule in RULES}
    return [
        SingletonRule(rule, joint_metrics(frame, guess, guess, meaningful_gap, bootstrap))
        for rule, guess in guesses.items()
    ]


def joint_metrics(
    frame: ExampleFrame, predicted_harm: Floats, unsafe_score: Floats, meaningful_gap: float, bootstrap: Bootstrap
) -> JointMetrics:
    """Pair accuracy within a state, across and at equal cardinality, and unsafe AUROC, on sets of two or more.

    Singletons are left out: there the measured rules are right by definition. So are sets without a prediction (NaN).
    """
    draws = draw_trajectories(frame.trajectory_group, bootstrap)
    rows = np.flatnonzero((frame.cardinality > 1) & ~np.isnan(predicted_harm))
    trajectory = frame.trajectory[rows]
    metrics = []
    for equal, words in (
        (False, "pairs of one state, any cardinality"),
        (True, "pairs of one state and cardinality"),
    ):
        group = grouping(frame, "state", equal)[rows]
        counts = count_pairs(predicted_harm[rows], frame.harm[rows], group, trajectory, meaningful_gap)
        metrics.append(pair_metrics(counts, words, draws[:, : len(counts.pairs)], bootstrap)[0])
    sets = "sets of two or more"
    area = auroc_metric(unsafe_score[rows], frame.unsafe[rows], trajectory, sets, draws, bootstrap)
    return JointMetrics(metrics[0], metrics[1], area)
