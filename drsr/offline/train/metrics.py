"""Metrics of predicted harms and unsafe scores (paper, appendix "Offline Prediction Metrics").

Each number says what it groups by and how a tie counts. Sets of one trajectory are dependent, and so are trials of one
task; intervals come from resampling whole tasks, or trajectories if the task is unknown, with replacement (percentile
bootstrap, seeded).

    pair accuracy   pairs of sets of one state or one trajectory whose harms differ by the meaningful gap or more; equal
                    predictions count one half; pooled over pairs, or the mean of trajectories that have a pair
    Spearman        sets of one state and one cardinality, three or more; tied values share their mean rank; constant
                    predictions count 0, constant harms leave the group out; mean over groups
    AUROC           all sets; an unsafe and a safe set with equal scores count one half
    Brier           all sets; mean squared difference between unsafe score and 0 or 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.ranking_pairs import group_numbers, pairs_within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Scope = Literal["state", "trajectory"]
SCOPES: tuple[Scope, ...] = ("state", "trajectory")

SPEARMAN_MINIMUM = 3
"""Two sets correlate by +1 or -1 whatever was predicted."""


class PairCounts(NamedTuple):
    """Meaningful pairs by trajectory: three arrays (trajectories)."""

    pairs: Floats
    correct: Floats
    tied: Floats
    """Pairs whose predictions are equal."""

    @property
    def credit(self) -> Floats:
        return self.correct + 0.5 * self.tied

    @property
    def pooled(self) -> float:
        """Accuracy over all pairs; NaN without one."""
        return _ratio(self.credit.sum(), self.pairs.sum())


def count_pairs(predicted: Floats, harm: Floats, group: Ints, trajectory: Ints, meaningful_gap: float) -> PairCounts:
    """Count the pairs of rows of one group whose harms differ by `meaningful_gap` or more."""
    first, second = pairs_within(group)
    difference = harm[first] - harm[second]
    kept = np.abs(difference) >= meaningful_gap
    first, second = first[kept], second[kept]
    agreement = np.sign(predicted[first] - predicted[second]) * np.sign(difference[kept])
    trajectories = int(trajectory.max(initial=-1)) + 1
    where = trajectory[first]
    return PairCounts(
        np.bincount(where, minlength=trajectories).astype(np.float64),
        np.bincount(where[agreement > 0], minlength=trajectories).astype(np.float64),
        np.bincount(where[agreement == 0], minlength=trajectories).astype(np.float64),
    )


class Correlations(NamedTuple):
    """Spearman correlations of groups: their sum and number by trajectory."""

    total: Floats
    groups: Floats


def spearman_within(predicted: Floats, harm: Floats, group: Ints, trajectory: Ints) -> Correlations:
    """Rank correlation of predictions and harms within each group of three or more rows."""
    from scipy.stats import rankdata  # takes a second to import; most processes that come here rank nothing

    trajectories = int(trajectory.max(initial=-1)) + 1
    total, groups = np.zeros(trajectories), np.zeros(trajectories)
    order = np.argsort(group, kind="stable")
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    for size in np.unique(sizes[sizes >= SPEARMAN_MINIMUM]):
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        left = rankdata(predicted[members], axis=1) - (size + 1) / 2
        right = rankdata(harm[members], axis=1) - (size + 1) / 2
        scale = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
        correlation = np.divide((left * right).sum(axis=1), scale, out=np.zeros(len(members)), where=scale > 0)
        informative = (right != 0).any(axis=1)
        where = trajectory[members[informative, 0]]
        total += np.bincount(where, weights=correlation[informative], minlength=trajectories)
        groups += np.bincount(where, minlength=trajectories)
    return Correlations(total, groups)


def auroc(score: Floats, unsafe: NDArray[np.bool_]) -> float:
    """Chance that a random unsafe row scores above a random safe one, ties one half. NaN if a class is missing."""
    return float(auroc_replicates(score, unsafe, np.zeros(len(score), dtype=np.int64), np.ones((1, 1)))[0])


def auroc_replicates(score: Floats, unsafe: NDArray[np.bool_], trajectory: Ints, draws: Floats) -> Floats:
    """Return the same in every replicate, each row counted as often as its trajectory was drawn: shape (replicates).

    Of a row only its place among the safe ones matters, which is looked up once. What is added up are whole numbers and
    halves, so no order of adding changes a bit.
    """
    safe = np.flatnonzero(~unsafe)
    safe = safe[np.argsort(score[safe], kind="stable")]
    below = np.searchsorted(score[safe], score[unsafe], side="left")
    not_above = np.searchsorted(score[safe], score[unsafe], side="right")
    areas = np.full(len(draws), np.nan)
    for start in range(0, len(draws), _REPLICATES_AT_ONCE):
        some = slice(start, start + _REPLICATES_AT_ONCE)
        drawn = np.ascontiguousarray(draws[some].T)
        safe_so_far = np.zeros((len(safe) + 1, drawn.shape[1]))
        np.cumsum(drawn[trajectory[safe]], axis=0, out=safe_so_far[1:])
        unsafe_weight = drawn[trajectory[unsafe]]
        won = 0.5 * (unsafe_weight * (safe_so_far[below] + safe_so_far[not_above])).sum(axis=0)
        possible = unsafe_weight.sum(axis=0) * safe_so_far[-1]
        np.divide(won, possible, out=areas[some], where=possible > 0)
    return areas


_REPLICATES_AT_ONCE = 32
"""Each needs a number per row: those of a few stay in the processor's cache."""


def brier(score: Floats, unsafe: NDArray[np.bool_]) -> float:
    """Return the mean squared difference between unsafe score and outcome."""
    return float(np.mean((score - unsafe) ** 2))


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The settings of bootstrap intervals."""

    replicates: int = 2_000
    confidence: float = 0.95
    seed: int = 20_260_101


def draw_trajectories(groups: Ints, bootstrap: Bootstrap) -> Floats:
    """Return how often each trajectory is drawn in each replicate: (replicates, trajectories).

    `groups` numbers the group of each trajectory, from 0. Whole groups are drawn: trials of one task come together. A
    single group says nothing about others, so it gives no replicates and no interval.
    """
    count = int(groups.max()) + 1
    if count < 2:
        return np.empty((0, len(groups)))
    return _times_drawn(count, bootstrap)[:, groups].astype(np.float64)


@lru_cache(maxsize=2)
def _times_drawn(count: int, bootstrap: Bootstrap) -> NDArray[np.uint32]:
    """Return how often each group is drawn in each replicate. Every metric of a frame asks for the same."""
    generator = np.random.default_rng(bootstrap.seed)
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=bootstrap.replicates)
    return drawn.astype(np.uint32)


class Metric(NamedTuple):
    """One number with its interval."""

    name: str
    grouping: str
    """Rows that are compared, and how the comparisons are averaged."""
    tie_rule: str
    value: float
    low: float
    high: float
    """Bounds of the bootstrap interval over trajectories; NaN if no replicate has a value."""
    support: int
    """Number of pairs, groups or sets that it rests on."""
    trajectories: int
    """Number of trajectories that these come from."""

    def to_json(self) -> dict[str, Any]:
        """Without NaN, which JSON does not know."""
        numbers = ("value", "low", "high")
        return self._asdict() | {name: none_if_nan(getattr(self, name)) for name in numbers}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        numbers: dict[str, Any] = {name: math.nan if found is None else found for name, found in value.items()}
        return cls(**numbers)


def none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


HALF = "a tie counts one half"


class Metrics(NamedTuple):
    """Every number that judges predictions."""

    state_pairs: Metric
    """Pairs of one state, pooled."""
    state_pairs_by_trajectory: Metric
    """The same as mean of trajectories."""
    trajectory_pairs: Metric
    """Pairs of one trajectory, pooled."""
    trajectory_pairs_by_trajectory: Metric
    """The same as mean of trajectories."""
    spearman: Metric
    unsafe_auroc: Metric
    brier: Metric


def evaluate(
    frame: ExampleFrame, predicted_harm: Floats, unsafe_score: Floats, meaningful_gap: float, bootstrap: Bootstrap
) -> Metrics:
    """Return every metric for predictions on a frame's sets."""
    trajectory = frame.trajectory
    draws = draw_trajectories(frame.trajectory_group, bootstrap)
    pairs = []
    for scope in SCOPES:
        group = grouping(frame, scope, equal_cardinality=True)
        counts = count_pairs(predicted_harm, frame.harm, group, trajectory, meaningful_gap)
        pairs.append(pair_metrics(counts, f"pairs of one {scope} and cardinality", draws, bootstrap))
    correlations = spearman_within(predicted_harm, frame.harm, grouping(frame, "state", True), trajectory)
    groups, shared = "sets of one state and cardinality, mean over groups", "tied values share their mean rank"
    errors = np.bincount(trajectory, weights=(unsafe_score - frame.unsafe) ** 2).astype(np.float64)
    sets = np.bincount(trajectory).astype(np.float64)
    by_state, by_trajectory = pairs
    return Metrics(
        *by_state,
        *by_trajectory,
        ratio_metric("Spearman", groups, shared, *correlations, draws, bootstrap),
        auroc_metric(unsafe_score, frame.unsafe, trajectory, "all sets", draws, bootstrap),
        ratio_metric("Brier score", "all sets", "none", errors, sets, draws, bootstrap),
    )


def grouping(frame: ExampleFrame, scope: Scope, equal_cardinality: bool) -> Ints:
    """Return a group number for each set: by state or by trajectory, and by cardinality if requested."""
    key = {"state": frame.state, "trajectory": frame.trajectory}[scope]
    return group_numbers(key, frame.cardinality) if equal_cardinality else group_numbers(key)


def ratio_metric(
    name: str, grouping: str, tie_rule: str, total: Floats, number: Floats, draws: Floats, bootstrap: Bootstrap
) -> Metric:
    """Return the mean over what is counted, from its total and number by trajectory, with the interval."""
    value = _ratio(total.sum(), number.sum())
    low, high = interval(ratios(draws @ total, draws @ number), bootstrap)
    return Metric(name, grouping, tie_rule, value, low, high, int(number.sum()), int((number > 0).sum()))


def pair_metrics(counts: PairCounts, pairs: str, draws: Floats, bootstrap: Bootstrap) -> tuple[Metric, Metric]:
    """Pair accuracy pooled and as mean of trajectories, with intervals."""
    name, some = "pair accuracy", counts.pairs > 0
    accuracy = np.divide(counts.credit, counts.pairs, out=np.zeros_like(counts.pairs), where=some)
    pooled = ratio_metric(name, f"{pairs}, pooled", HALF, counts.credit, counts.pairs, draws, bootstrap)
    each = ratio_metric(
        name, f"{pairs}, mean of trajectories", HALF, accuracy, some.astype(np.float64), draws, bootstrap
    )
    return pooled, each._replace(support=pooled.support)


def pair_gain(counts: PairCounts, baseline: PairCounts, pairs: str, draws: Floats, bootstrap: Bootstrap) -> Metric:
    """Return how much more often pairs are ordered rightly than by a baseline, on the same drawn trajectories."""
    credit = counts.credit - baseline.credit
    return ratio_metric("gain in pair accuracy", f"{pairs}, pooled", HALF, credit, counts.pairs, draws, bootstrap)


def auroc_metric(
    score: Floats, unsafe: NDArray[np.bool_], trajectory: Ints, sets: str, draws: Floats, bootstrap: Bootstrap
) -> Metric:
    """Unsafe AUROC with its interval."""
    area, present = auroc(score, unsafe), len(np.unique(trajectory))
    areas = auroc_replicates(score, unsafe, trajectory, draws)
    return Metric("unsafe AUROC", sets, HALF, area, *interval(areas, bootstrap), len(score), present)


def auroc_gain(
    score: Floats,
    baseline: Floats,
    unsafe: NDArray[np.bool_],
    trajectory: Ints,
    sets: str,
    draws: Floats,
    bootstrap: Bootstrap,
) -> Metric:
    """Return how much larger the area is than a baseline's; both on the same drawn trajectories."""
    gain = auroc(score, unsafe) - auroc(baseline, unsafe)
    gains = np.subtract(*(auroc_replicates(each, unsafe, trajectory, draws) for each in (score, baseline)))
    present = len(np.unique(trajectory))
    return Metric("gain in unsafe AUROC", sets, HALF, gain, *interval(gains, bootstrap), len(score), present)


def interval(values: Floats, bootstrap: Bootstrap) -> tuple[float, float]:
    """Percentiles of the replicates that have a value."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return float("nan"), float("nan")
    outside = (1 - bootstrap.confidence) / 2
    low, high = np.quantile(values, [outside, 1 - outside])
    return float(low), float(high)


def ratios(numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio of each replicate; NaN where there is nothing to count."""
    found: Floats = np.divide(numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > 0)
    return found


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else float("nan")
