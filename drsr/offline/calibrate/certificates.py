"""Certified calibration: a finite-sample upper bound on the unsafe rate among the sets that a policy selects.

What is bounded. A group g is a task with all its trials, or a trajectory if no task is known. It gives s_g selected
sets, u_g of them unsafe. The unsafe rate of a policy is E[u] / E[s]: the unsafe share of all sets that it selects in
new groups.

The bound. For a rate r let W_g = (r s_g - u_g) / (m (1 - r)), m the most states that a group can have, fixed beforehand
(`max_group_states`): at least -1, and of mean at most 0 if the true rate is r or more. So for any bet b in [0, 1) the
product of 1 + b W_g over independent groups has mean at most 1, and so has its average over bets fixed beforehand; by
Markov it reaches 1 / delta with probability at most delta. Rates at which it does are ruled out; the bound is the
smallest ruled-out rate. This is the betting bound of Waudby-Smith and Ramdas ("Estimating means of bounded random
variables by betting", 2024), with a mixture over constant bets instead of a sequence of bets, so that the order of the
groups does not matter.

The assumption. Validation groups are independent draws from the population that the policy will meet, and the
scorer is not fitted on them; states and sets of one group may depend on each other in any way. Early stopping does
look at validation labels when it chooses a member's epoch: the guarantee is exact for a scorer whose epochs were fixed
beforehand, and optimistic by that choice otherwise.

The search. Thresholds are taken from the training split (as the values at which given shares of its states would
prune), not from validation, and tested in rising order, each at the full level, until one fails (fixed-sequence
testing, as in Angelopoulos et al., "Learn then Test", 2021); every K, beta and start of a sequence pays its share of
delta (Bonferroni). With probability 1 - delta no certified policy has a true unsafe rate above the limit, however many
were tried.

A bound reported with a plain calibration (`bound_at`) is the same bound for its one point, without a search to pay for:
exact if the point had been fixed before these states were seen, optimistic because it was chosen on them.

Cross-fitted. Every group of train and validation gives its counts by the choices of members that never saw it, and the
thresholds are fixed beforehand (`FIXED_THRESHOLDS`), because no split is left to take them from. Two things are assumed
beyond the above: that the final members, fitted on more tasks, are not less safe than the fold members; and that groups
count as independent although members of different folds were fitted on overlapping tasks. A test simulates both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.errors import SettingsError, SplitRefused
from drsr.offline.calibrate.search import (
    Calibration,
    OperatingPoint,
    SearchTable,
    choose,
    incomplete_states,
    source_weights,
    sweep,
)
from drsr.offline.calibrate.selection_path import SelectionPath, selection_path
from drsr.offline.params import CalibrateParams, CertifiedParams
from drsr.offline.train.examples import ExampleFrame, TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BETS = (np.arange(32) + 0.5) / 32
"""The bets b that are averaged over, as parts of the largest allowed one."""
FIXED_THRESHOLDS = np.arange(2, 26) / 50
"""The thresholds of a cross-fitted search, 0.04 to 0.50: unsafe scores are meant as probabilities."""
BOUND = "betting bound by task, mixture over constant bets (after Waudby-Smith and Ramdas, 2024)"


class GroupCounts(NamedTuple):
    """Counts by group: how many sets a policy selects, and how many of these are unsafe."""

    selected: Ints
    unsafe: Ints


class TriedPolicy(NamedTuple):
    """One threshold of the certified search."""

    max_cardinality: int
    uncertainty_coefficient: float
    risk_threshold: float
    selected: int
    unsafe: int
    unsafe_bound: float
    """Upper confidence bound on the unsafe rate, at the level that pays for the search."""
    certified: bool


class CertifiedCalibration(NamedTuple):
    calibration: Calibration
    """The certified policy that calibration prefers. Its table lists all that were tried."""
    tried: list[TriedPolicy]
    """The same, row by row, including those after a failed test."""
    bound: str
    confidence: float

    @property
    def chosen(self) -> TriedPolicy | None:
        """The policy that was chosen, with its bound."""
        point = self.calibration.chosen
        if point is None:
            return None
        numbers = (point.max_cardinality, point.uncertainty_coefficient, point.risk_threshold)
        return next(policy for policy in self.tried if policy[:3] == numbers)


def evidence_against(rate: float, counts: GroupCounts, most_states: int) -> float:
    """Return the evidence against a true unsafe rate of `rate` or more: a value of mean at most 1 if it is so."""
    win = (rate * counts.selected - counts.unsafe) / (most_states * (1 - rate))
    logarithms = np.log1p(BETS[:, None] * win).sum(axis=1)
    return float(np.exp(np.minimum(logarithms, 700.0)).mean())


def unsafe_rate_bound(counts: GroupCounts, most_states: int, delta: float) -> float:
    """Return the bound that the unsafe rate is below with probability 1 - delta; 1 if the counts rule out nothing."""
    low, high = 0.0, 1.0
    # The evidence grows with the rate (r s - u over 1 - r does, as u <= s), so the rates ruled out are an interval.
    for _ in range(50):
        middle = (low + high) / 2
        if evidence_against(middle, counts, most_states) >= 1 / delta:
            high = middle
        else:
            low = middle
    return high


def group_counts(frame: ExampleFrame, chosen: Ints) -> GroupCounts:
    """Count by split group; `chosen` is the selected row of each state, -1 for abstention."""
    states = np.flatnonzero(chosen >= 0)
    group, groups = frame.state_group[states], int(frame.state_group.max()) + 1
    unsafe = group[frame.unsafe[chosen[states]]]
    return GroupCounts(np.bincount(group, minlength=groups), np.bincount(unsafe, minlength=groups))


def threshold_grid(path: SelectionPath, coverages: tuple[float, ...]) -> Floats:
    """Return the thresholds at which these shares of a split's states prune; fewer if none prunes so large a share."""
    first = path.threshold[path.previous < 0]
    reached = np.sort(first)
    needed = np.ceil(np.asarray(coverages) * path.states - 1e-9).astype(np.int64)
    return np.unique(reached[needed[needed <= len(reached)] - 1])


def calibrate_certified(
    train: ScoredSets[TrainingFrame], validation: ScoredSets[TrainingFrame], params: CalibrateParams
) -> CertifiedCalibration:
    """Choose among the policies whose unsafe rate on new trajectories is bounded with confidence."""
    if (train.frame.split, validation.frame.split) != ("train", "validation"):
        raise SplitRefused("thresholds come from `train` and are certified on `validation`")

    def grid(cardinality: int, coefficient: float) -> Floats:
        path = selection_path(train, cardinality, coefficient, params.removal_cap)
        return threshold_grid(path, params.certified.coverages)

    _check_group_states([train.frame, validation.frame], params.certified)
    return _certify(validation, params, grid)


def certify_cross_fitted(scored: ScoredSets[TrainingFrame], params: CalibrateParams) -> CertifiedCalibration:
    """Return the same for scores of members that never saw the task they score."""
    _check_group_states([scored.frame], params.certified)
    return _certify(scored, params, lambda cardinality, coefficient: FIXED_THRESHOLDS)


class PointBound(NamedTuple):
    """The finite-sample bound of a point that a plain calibration chose."""

    rate: float | None
    """Bound on the unsafe rate; None if a task has more states than were allowed for, so that the bound does not
    hold."""
    confidence: float
    most_states: int
    largest: int
    """States of the largest task here."""


def bound_at(scored: ScoredSets[TrainingFrame], point: OperatingPoint, params: CalibrateParams) -> PointBound:
    """Bound the unsafe rate of one point, as if it had been fixed before these states were seen."""
    certified = params.certified
    largest = _largest_group([scored.frame])
    if largest > certified.max_group_states:
        return PointBound(None, certified.confidence, certified.max_group_states, largest)
    path = selection_path(scored, point.max_cardinality, point.uncertainty_coefficient, params.removal_cap)
    counts = group_counts(scored.frame, path.at(point.risk_threshold))
    rate = unsafe_rate_bound(counts, certified.max_group_states, 1 - certified.confidence)
    return PointBound(rate, certified.confidence, certified.max_group_states, largest)


def _largest_group(frames: Sequence[TrainingFrame]) -> int:
    return max(int(np.bincount(frame.state_group).max()) for frame in frames)


def _check_group_states(frames: Sequence[TrainingFrame], certified: CertifiedParams) -> None:
    largest = _largest_group(frames)
    if largest > certified.max_group_states:
        raise SettingsError(
            f"calibrate.certified.max_group_states is {certified.max_group_states}, a task here has {largest} states",
            hint="set it to three times the trials of a task, for what is to come too; it is fixed before any data",
        )


def _certify(
    scored: ScoredSets[TrainingFrame], params: CalibrateParams, grid_of: Callable[[int, float], Floats]
) -> CertifiedCalibration:
    certified, frame = params.certified, scored.frame
    tried: list[TriedPolicy] = []
    tables: list[SearchTable] = []
    chains = [(k, beta) for k in certified.max_cardinalities for beta in certified.uncertainty_coefficients]
    most_states, weights = certified.max_group_states, source_weights(frame, params)
    delta = (1 - certified.confidence) / (len(chains) * certified.starts)
    for cardinality, coefficient in chains:
        grid = grid_of(cardinality, coefficient)
        path = selection_path(scored, cardinality, coefficient, params.removal_cap)
        chain = _test_chain(frame, path, grid, cardinality, coefficient, most_states, delta, certified)
        tables.append(sweep(frame, path, cardinality, coefficient, grid, weights))
        tried += chain
    table = SearchTable.joined(tables)
    passed = np.array([policy.certified for policy in tried], dtype=np.bool_)
    chosen = choose(table.rows(passed), params, incomplete_states(frame))._replace(table=table)
    if not passed.any():
        level = f"an unsafe rate of at most {certified.max_unsafe_rate:g} with confidence {certified.confidence:g}"
        explanation = f"THE POLICY ABSTAINS ALWAYS: none of {len(tried)} thresholds could be certified for {level}."
        chosen = chosen._replace(explanation=explanation)
    return CertifiedCalibration(chosen, tried, BOUND, certified.confidence)


def _test_chain(
    frame: TrainingFrame,
    path: SelectionPath,
    grid: Floats,
    cardinality: int,
    coefficient: float,
    most_states: int,
    delta: float,
    params: CertifiedParams,
) -> list[TriedPolicy]:
    counts = [group_counts(frame, path.at(threshold)) for threshold in grid]
    bounds = [unsafe_rate_bound(count, most_states, delta) for count in counts]
    passes = np.array(bounds) <= params.max_unsafe_rate
    certified = certified_in_sequence(passes, params.starts)
    return [
        TriedPolicy(cardinality, coefficient, float(threshold), int(s.sum()), int(u.sum()), bound, bool(is_certified))
        for threshold, (s, u), bound, is_certified in zip(grid, counts, bounds, certified, strict=True)
    ]


def certified_in_sequence(passes: NDArray[np.bool_], starts: int) -> NDArray[np.bool_]:
    """Return, from each of `starts` evenly spaced positions, everything up to the first test that fails."""
    certified = np.zeros(len(passes), dtype=np.bool_)
    for start in np.linspace(0, len(passes), starts, endpoint=False).astype(np.int64):
        failed = np.flatnonzero(~passes[start:])
        certified[start : start + failed[0] if len(failed) else len(passes)] = True
    return certified
