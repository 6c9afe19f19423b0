"""Selection of a deletion set, or a reason to abstain (paper, Eq. feasible, Eq. selection_objective): pure functions.

The feasible sets have at most K members, save something but not more than the removal cap, keep the request's protocol
valid and have an unsafe score within the risk threshold. (That no set touches Recent2 holds already: candidates are
older.) Of these the largest saving; on ties the lower unsafe score, the lower predicted harm, the earlier row. A
session knows what a deletion is worth in money, prompt cache included: that takes the place of the saving in tokens.
Calibration sweeps this same rule over thresholds, so it and the online decision cannot disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """The frozen numbers of a selection."""

    max_cardinality: int
    """K: most candidates deleted at once."""
    removal_cap: float
    """q_max: largest part of the full request's tokens that one deletion may save."""
    risk_threshold: float
    """tau: largest unsafe score of a feasible set. Minus infinity abstains always, plus infinity has no risk gate."""

    def __post_init__(self) -> None:
        if math.isnan(self.risk_threshold):
            raise ValueError("a risk threshold that is not a number would neither pass nor refuse a set")


class ProposedSets(NamedTuple):
    """The deletion sets of one decision (or of many, row by row)."""

    cardinality: NDArray[np.int64]
    direct_saving: NDArray[np.int64]
    """w(A) in tokens of the full request."""
    protocol_safe: NDArray[np.bool_]
    """True for each set whose rewritten request is valid."""
    unsafe_score: NDArray[np.float64]
    """U(A)."""
    predicted_harm: NDArray[np.float64]
    worth: NDArray[np.float64] | None = None
    """In a session: the total amount of money that each set is expected to save."""

    @property
    def gain(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """Return the gain that a selection ranks by: money if it is known, otherwise tokens."""
        return self.direct_saving if self.worth is None else self.worth


class AbstentionReason(StrEnum):
    """The reason to leave the request unchanged: the first condition that no set met."""

    NO_VALID_SET = "no_valid_set"
    """No set within the cardinality limit saves tokens and keeps the protocol valid."""
    OVER_REMOVAL_CAP = "over_removal_cap"
    """Every valid set saves more than the removal cap allows."""
    OVER_RISK_THRESHOLD = "over_risk_threshold"
    """Every set within the cap has too high an unsafe score."""


class Selection(NamedTuple):
    """The selected set, or the reason to abstain. Abstention is an outcome, not an error."""

    chosen: int | None
    """Row of the chosen set; None means abstention."""
    reason: AbstentionReason | None
    """Reason why no set was chosen; None if one was."""
    feasible: NDArray[np.bool_]
    """True for each feasible row."""


def select(sets: ProposedSets, request_tokens: int, rule: SelectionRule) -> Selection:
    """Choose among the sets of one decision. A score that is not a number is never within the threshold."""
    valid = _valid(sets, rule.max_cardinality)
    within_cap = valid & _within_cap(sets, request_tokens, rule.removal_cap)
    feasible = within_cap & (sets.unsafe_score <= rule.risk_threshold)
    rows = np.flatnonzero(feasible)
    if len(rows) == 0:
        return Selection(None, _reason(valid, within_cap), feasible)
    keys = (rows, sets.predicted_harm[rows], sets.unsafe_score[rows], -sets.gain[rows])
    return Selection(int(rows[np.lexsort(keys)[0]]), None, feasible)


class Standing(StrEnum):
    """The fate of one set: chosen, or the first condition it failed, or the criterion that favoured another."""

    CHOSEN = "chosen"
    TOO_MANY_BLOCKS = "too_many_blocks"
    SAVES_NOTHING = "saves_nothing"
    BREAKS_PROTOCOL = "breaks_protocol"
    OVER_REMOVAL_CAP = "over_removal_cap"
    OVER_RISK_THRESHOLD = "over_risk_threshold"
    SAVES_LESS = "saves_less"
    """Feasible, but another one saves more: tokens, or in a session money."""
    HIGHER_UNSAFE_SCORE = "higher_unsafe_score"
    """Feasible and saves as much as the chosen one."""
    HIGHER_PREDICTED_HARM = "higher_predicted_harm"
    """Feasible, with the chosen one's saving and unsafe score."""
    LISTED_LATER = "listed_later"
    """Equal to the chosen one in everything."""
    NOT_WORTH_REWRITING = "not_worth_rewriting"
    """In a session: it would save less money than rewriting the cached prefix costs."""
    BELOW_MINIMUM = "below_minimum"
    """It saves less than a deletion must."""
    NOT_SCORED = "not_scored"
    """It did not come to a selection."""


def verdicts(sets: ProposedSets, request_tokens: int, rule: SelectionRule, selection: Selection) -> list[Standing]:
    """Return for each set why it was or was not chosen."""
    within_cap = _within_cap(sets, request_tokens, rule.removal_cap)
    found = []
    for row in range(len(sets.direct_saving)):
        if row == selection.chosen:
            found.append(Standing.CHOSEN)
        elif sets.cardinality[row] > rule.max_cardinality:
            found.append(Standing.TOO_MANY_BLOCKS)
        elif sets.direct_saving[row] <= 0:
            found.append(Standing.SAVES_NOTHING)
        elif not sets.protocol_safe[row]:
            found.append(Standing.BREAKS_PROTOCOL)
        elif not within_cap[row]:
            found.append(Standing.OVER_REMOVAL_CAP)
        elif not selection.feasible[row] or selection.chosen is None:
            found.append(Standing.OVER_RISK_THRESHOLD)
        else:
            found.append(_beaten(sets, row, selection.chosen))
    return found


def _beaten(sets: ProposedSets, row: int, chosen: int) -> Standing:
    """Return the criterion by which the chosen set was preferred to another feasible one."""
    if sets.gain[row] != sets.gain[chosen]:
        return Standing.SAVES_LESS
    if sets.unsafe_score[row] != sets.unsafe_score[chosen]:
        return Standing.HIGHER_UNSAFE_SCORE
    if sets.predicted_harm[row] != sets.predicted_harm[chosen]:
        return Standing.HIGHER_PREDICTED_HARM
    return Standing.LISTED_LATER


def structurally_valid(
    sets: ProposedSets, request_tokens: NDArray[np.int64] | int, max_cardinality: int, removal_cap: float
) -> NDArray[np.bool_]:
    """Return the rows that satisfy everything but the risk condition; `request_tokens` may differ by row."""
    return _valid(sets, max_cardinality) & _within_cap(sets, request_tokens, removal_cap)


def _valid(sets: ProposedSets, max_cardinality: int) -> NDArray[np.bool_]:
    small = (sets.cardinality >= 1) & (sets.cardinality <= max_cardinality)
    return small & (sets.direct_saving > 0) & sets.protocol_safe


def _within_cap(sets: ProposedSets, request_tokens: NDArray[np.int64] | int, removal_cap: float) -> NDArray[np.bool_]:
    within: NDArray[np.bool_] = sets.direct_saving <= removal_cap * np.asarray(request_tokens)
    return within


def _reason(valid: NDArray[np.bool_], within_cap: NDArray[np.bool_]) -> AbstentionReason:
    if not valid.any():
        return AbstentionReason.NO_VALID_SET
    return AbstentionReason.OVER_RISK_THRESHOLD if within_cap.any() else AbstentionReason.OVER_REMOVAL_CAP
