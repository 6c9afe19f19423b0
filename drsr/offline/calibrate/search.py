"""The frozen operating point (K, beta, tau), chosen on validation (paper, appendix "Validation Selection").

Every observed validation score is tried as threshold, for every K and beta. A policy is admissible if it selects
something, and its selected sets keep to the unsafe rate and the mean exact harm. Of these the search chooses the one
with the largest mean fraction of the full request removed over all validation states (abstention removes nothing); on
ties the lower unsafe rate, the lower mean harm, then the smaller K, the smaller beta and the smaller tau: the choice
never depends on an order.

With `source_balance` the unsafe rate must hold twice: over the states as they are, and with sources weighted towards
equality, for requests whose mix differs from the one measured.

Only labelled sets can be selected here. A set whose label was excluded is missing from its state; the result counts
such states, because online the policy may meet sets of their kind.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.decide.selection import SelectionRule
from drsr.errors import SplitRefused
from drsr.offline.calibrate.selection_path import SelectionPath, selection_path
from drsr.offline.params import CalibrateParams
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets
from drsr.offline.train.source_balance import state_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNIT = 2.0**-40
"""Harms and fractions are summed as whole multiples of this (1e-12). Sums of whole numbers do not depend on their
order, so a running sum is exact and two policies that select the same sets tie truly."""


@dataclass(frozen=True, eq=False)
class SearchTable:
    """One row per policy tried: equally long columns."""

    states: int
    """Number of validation states."""
    max_cardinality: Ints
    uncertainty_coefficient: Floats
    risk_threshold: Floats
    selected: Ints
    """In how many validation states a set is selected."""
    unsafe: Ints
    """Number of selected sets that are unsafe."""
    harm_units: Ints
    """Sum of the selected sets' exact harms, in UNIT."""
    removal_units: Ints
    """Sum over states of the fraction of the request removed, in UNIT."""
    balanced_selected: Ints
    balanced_unsafe: Ints
    """`selected` and `unsafe` again, each state with the weight of its source."""

    @property
    def unsafe_rate(self) -> Floats:
        """Return the unsafe share of the selected sets; NaN if there are none."""
        return self._per_selected(self.unsafe.astype(np.float64), self.selected)

    @property
    def balanced_unsafe_rate(self) -> Floats:
        """Return the same with sources weighted; equal to it without a balance."""
        return self._per_selected(self.balanced_unsafe.astype(np.float64), self.balanced_selected)

    @property
    def mean_harm(self) -> Floats:
        """Return the mean harm of the selected sets in nats per token; NaN if there are none."""
        return self._per_selected((self.harm_units * UNIT).astype(np.float64), self.selected)

    @property
    def mean_removal(self) -> Floats:
        """Mean fraction of the full request removed, over all states."""
        return self.removal_units * UNIT / self.states

    @property
    def coverage(self) -> Floats:
        """Part of the states in which something is selected."""
        return self.selected / self.states

    def admissible(self, max_unsafe_rate: float, max_mean_harm: float) -> NDArray[np.bool_]:
        """Return the policies that select something and keep to both limits, the first under either weighting."""
        some = self.selected > 0
        rate, harm = np.maximum(self.unsafe_rate, self.balanced_unsafe_rate), self.mean_harm
        return (
            some & (np.where(some, rate, np.inf) <= max_unsafe_rate) & (np.where(some, harm, np.inf) <= max_mean_harm)
        )

    def preference(self) -> Ints:
        """Row numbers from most to least preferred, whether admissible or not."""
        keys = (
            self.risk_threshold,
            self.uncertainty_coefficient,
            self.max_cardinality,
            self.mean_harm,
            self.unsafe_rate,
            -self.removal_units,
        )
        return np.lexsort(keys).astype(np.int64)

    def rows(self, kept: NDArray[np.bool_]) -> SearchTable:
        """Return the table of some rows only."""
        return SearchTable(self.states, *(column[kept] for column in self.columns))

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """All columns, in order."""
        return tuple(getattr(self, field.name) for field in fields(self)[1:])

    @classmethod
    def joined(cls, tables: list[SearchTable]) -> SearchTable:
        """Return tables of the same states, one after another."""
        return cls(tables[0].states, *map(np.concatenate, zip(*(table.columns for table in tables), strict=True)))

    def __len__(self) -> int:
        return len(self.risk_threshold)

    def _per_selected(self, sums: Floats, selected: Ints) -> Floats:
        means: Floats = np.divide(sums, selected, out=np.full(len(self), np.nan), where=selected > 0)
        return means


class OperatingPoint(NamedTuple):
    """A policy's numbers and how it did on validation."""

    max_cardinality: int
    uncertainty_coefficient: float
    risk_threshold: float
    selected: int
    unsafe_rate: float
    mean_harm: float
    mean_removal: float

    def rule(self, removal_cap: float) -> SelectionRule:
        return SelectionRule(self.max_cardinality, removal_cap, self.risk_threshold)


class Calibration(NamedTuple):
    """The outcome of a search."""

    chosen: OperatingPoint | None
    """The chosen operating point; None if no policy is admissible, and the policy made from this always abstains."""
    explanation: str
    """One sentence for the reader."""
    table: SearchTable
    """Everything that was tried."""
    incomplete_states: int
    """Validation states that lack the label of some deletion set."""

    @property
    def abstains_always(self) -> bool:
        return self.chosen is None

    def rule(self, params: CalibrateParams) -> SelectionRule:
        """Return the rule to freeze. If no policy is admissible, its threshold is so low that every set is refused."""
        if self.chosen is None:
            return SelectionRule(max(params.max_cardinalities), params.removal_cap, -np.inf)
        return self.chosen.rule(params.removal_cap)


def calibrate(scored: ScoredSets[TrainingFrame], params: CalibrateParams) -> Calibration:
    """Search all policies on the validation split and choose one."""
    if scored.frame.split != "validation":
        raise SplitRefused(f"thresholds are chosen on `validation`, not on {scored.frame.split}")
    return calibrate_cross_fitted(scored, params)


def calibrate_cross_fitted(scored: ScoredSets[TrainingFrame], params: CalibrateParams) -> Calibration:
    """Return the same on every state of train and validation, each scored by members that never saw its task. Nothing
    in a frame shows who scored it: that is for the caller to know."""
    table = search(scored, params)
    return choose(table, params, incomplete_states(scored.frame))


def search(scored: ScoredSets[TrainingFrame], params: CalibrateParams) -> SearchTable:
    """Return every observed score as threshold, for every K and beta."""
    parts = []
    weights = source_weights(scored.frame, params)
    for cardinality in params.max_cardinalities:
        for coefficient in params.uncertainty_coefficients:
            path = selection_path(scored, cardinality, coefficient, params.removal_cap)
            observed = scored.unsafe_score(coefficient)[scored.frame.cardinality <= cardinality]
            parts.append(sweep(scored.frame, path, cardinality, coefficient, np.unique(observed), weights))
    return SearchTable.joined(parts)


def source_weights(frame: TrainingFrame, params: CalibrateParams) -> Ints:
    """Return the weight of each state in the smallest whole numbers: all 1 without a balance."""
    weights = state_weights(frame, params.source_balance)
    smallest: Ints = weights // np.gcd.reduce(weights)
    return smallest


def sweep(
    frame: TrainingFrame, path: SelectionPath, cardinality: int, coefficient: float, thresholds: Floats, weights: Ints
) -> SearchTable:
    """Sweep the same (K, beta) over many thresholds: each choice adds its set and removes the one that it replaces.
    `weights` are those of the states."""
    removal = np.rint(frame.direct_saving / frame.request_tokens[frame.state] / UNIT).astype(np.int64)
    harm = np.rint(frame.harm / UNIT).astype(np.int64)
    unsafe, weight = frame.unsafe.astype(np.int64), weights[frame.state]
    values = np.stack([np.ones_like(harm), unsafe, harm, removal, weight, unsafe * weight])
    before = path.previous
    changes = values[:, path.row] - np.where(before >= 0, values[:, before], 0)
    order = np.argsort(path.threshold, kind="stable")
    running = np.concatenate([np.zeros((6, 1), dtype=np.int64), np.cumsum(changes[:, order], axis=1)], axis=1)
    passed = np.searchsorted(path.threshold[order], thresholds, side="right")
    return SearchTable(
        path.states,
        np.full(len(thresholds), cardinality, dtype=np.int64),
        np.full(len(thresholds), coefficient),
        thresholds,
        *running[:, passed],
    )


def choose(table: SearchTable, params: CalibrateParams, incomplete: int) -> Calibration:
    """Return the most preferred admissible row, or None."""
    admissible = table.admissible(params.max_unsafe_rate, params.max_mean_harm)
    preferred = table.preference()
    preferred = preferred[admissible[preferred]]
    limits = f"unsafe rate <= {params.max_unsafe_rate:g} and mean harm <= {params.max_mean_harm:g}"
    if len(preferred) == 0:
        return Calibration(None, _nothing_admissible(table, limits), table, incomplete)
    point = operating_point(table, int(preferred[0]))
    explanation = (
        f"{int(admissible.sum()):,} of {len(table):,} policies keep to {limits}; chosen: K {point.max_cardinality}, "
        f"beta {point.uncertainty_coefficient:g}, tau {point.risk_threshold:.6g}, which prunes "
        f"{point.selected:,} of {table.states:,} states and removes {point.mean_removal:.2%} on average"
    )
    if params.source_balance:
        balanced = float(table.balanced_unsafe_rate[preferred[0]])
        explanation += f"; {point.unsafe_rate:.2%} of that is unsafe, with sources weighted {balanced:.2%}"
    explanation += "."
    return Calibration(point, explanation, table, incomplete)


def operating_point(table: SearchTable, row: int) -> OperatingPoint:
    """Return one row as plain numbers."""
    return OperatingPoint(
        int(table.max_cardinality[row]),
        float(table.uncertainty_coefficient[row]),
        float(table.risk_threshold[row]),
        int(table.selected[row]),
        float(table.unsafe_rate[row]),
        float(table.mean_harm[row]),
        float(table.mean_removal[row]),
    )


def incomplete_states(frame: TrainingFrame) -> int:
    """Count states that lack the label of some deletion set."""
    labelled = np.bincount(frame.state, minlength=len(frame.state_ids))
    return int((labelled < (1 << frame.candidate_counts) - 1).sum())


def _nothing_admissible(table: SearchTable, limits: str) -> str:
    some = table.selected > 0
    if not some.any():
        return "THE POLICY ABSTAINS ALWAYS: in no validation state does any set meet the structural constraints."
    lowest_rate, lowest_harm = np.min(table.unsafe_rate[some]), np.min(table.mean_harm[some])
    return (
        f"THE POLICY ABSTAINS ALWAYS: none of {len(table):,} policies keeps to {limits}; "
        f"the lowest unsafe rate is {lowest_rate:.3f}, the lowest mean harm {lowest_harm:.4f}."
    )
