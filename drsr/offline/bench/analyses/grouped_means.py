"""Means and medians with intervals. Sets of one trajectory are dependent, so whole tasks are resampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import (
    Bootstrap,
    Floats,
    Ints,
    Metric,
    PairCounts,
    draw_trajectories,
    interval,
    pair_gain,
    pair_metrics,
    ratio_metric,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INTERVALS = "95 % intervals in brackets resample whole tasks."


class GroupedMeans:
    """Means over the groups of one frame; all of them use the same draws."""

    def __init__(self, frame: ExampleFrame, bootstrap: Bootstrap) -> None:
        self._trajectory = frame.trajectory
        self._bootstrap = bootstrap
        self._draws = draw_trajectories(frame.trajectory_group, bootstrap)

    def mean(self, values: Floats, rows: NDArray[np.bool_]) -> Metric:
        """Over these sets, each counting once."""
        where, trajectories = self._trajectory[rows], self._draws.shape[1]
        total = np.bincount(where, weights=values[rows], minlength=trajectories).astype(np.float64)
        number = np.bincount(where, minlength=trajectories).astype(np.float64)
        return ratio_metric("mean", "sets, pooled", "none", total, number, self._draws, self._bootstrap)

    def accuracy(self, counts: PairCounts) -> Metric:
        """Of pairs, pooled."""
        return pair_metrics(counts, "pairs", self._counted(counts), self._bootstrap)[0]

    def gain(self, counts: PairCounts, baseline: PairCounts) -> Metric:
        """Return how much more often the same pairs are ordered rightly than by a baseline, drawn together."""
        return pair_gain(counts, baseline, "pairs", self._counted(counts), self._bootstrap)

    def _counted(self, counts: PairCounts) -> Floats:
        return self._draws[:, : len(counts.pairs)]  # trajectories after the last that has a pair are not counted


def grouped_median(values: Floats, group: Ints, draws: Floats, bootstrap: Bootstrap) -> Metric:
    """Return the median of values that belong to numbered groups; `draws` says how often each group is drawn in each
    replicate."""
    value = float(np.median(values)) if len(values) else float("nan")
    low, high = interval(_medians(values, draws[:, group]), bootstrap)
    return Metric("median", "pooled", "none", value, low, high, len(values), len(np.unique(group)))


def _medians(values: Floats, times: Floats) -> Floats:
    """Return the median of each replicate, in which each value occurs a given number of times; NaN if none does."""
    if len(values) == 0:
        return np.full(len(times), np.nan)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(times[:, order], axis=1)
    half = reached[:, -1:] / 2
    # Where half is reached exactly the middle lies between two values, else both are the same one.
    below, above = np.argmax(reached >= half, axis=1), np.argmax(reached > half, axis=1)
    middle = (values[order][below] + values[order][above]) / 2
    medians: Floats = np.where(half[:, 0] > 0, middle, np.nan)
    return medians


def draw_line(
    axes: Axes, x: Sequence[float], found: Sequence[Metric], mark: str, colour: str, label: str | None = None
) -> None:
    """Draw the values as a line, and their intervals as bars."""
    axes.plot(list(x), [one.value for one in found], mark, color=colour, label=label, markersize=3)
    for place, one in zip(x, found, strict=True):
        axes.plot([place, place], [one.low, one.high], "-", color=colour, linewidth=0.8)
