"""The selection path: the set chosen in every state, for all risk thresholds at once.

As the threshold rises, a state's choice changes only when a set becomes feasible that saves more than the choice so
far. These moments are found by sorting once; any threshold is then answered without scoring or selecting again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drsr.decide.selection import structurally_valid
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.scored_sets import ScoredSets

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SelectionPath:
    """The choices of one (K, beta), in the order of states and, within a state, of rising thresholds."""

    states: int
    """Number of states, including those without any choice."""
    state: Ints
    """State of each choice."""
    row: Ints
    """The set chosen, as row of the frame."""
    threshold: NDArray[np.float64]
    """The risk threshold from which on it is chosen: its own unsafe score."""

    @property
    def previous(self) -> Ints:
        """Return the row that each choice replaces; -1 if the state abstained before."""
        before = np.concatenate([[-1], self.row[:-1]])
        return np.where(np.diff(self.state, prepend=-1) != 0, -1, before)

    def at(self, threshold: float) -> Ints:
        """Return the row selected in each state at this threshold; -1 is abstention."""
        chosen = np.full(self.states, -1, dtype=np.int64)
        # Choices are in rising order within a state, so the last assignment is the one that holds.
        within = self.threshold <= threshold
        chosen[self.state[within]] = self.row[within]
        return chosen


def selection_path(
    scored: ScoredSets[ExampleFrame], max_cardinality: int, uncertainty_coefficient: float, removal_cap: float
) -> SelectionPath:
    """Return all choices of `drsr.decide.selection.select` on these sets, for any threshold."""
    frame = scored.frame
    sets = scored.proposed(uncertainty_coefficient)
    valid = structurally_valid(sets, frame.request_tokens[frame.state], max_cardinality, removal_cap)
    rows = np.flatnonzero(valid)
    keys = (rows, sets.predicted_harm[rows], -frame.direct_saving[rows], sets.unsafe_score[rows], frame.state[rows])
    rows = rows[np.lexsort(keys)]
    # A set is a choice if it saves strictly more than every set before it in its state: equal savings prefer the lower
    # score, which came first. Offsetting savings by state makes the running maximum start anew in each.
    offset = int(frame.direct_saving.max()) + 1
    key = frame.state[rows] * offset + frame.direct_saving[rows]
    best_before = np.concatenate([[-1], np.maximum.accumulate(key)[:-1]]) if len(rows) else key
    rows = rows[key > np.maximum(best_before, frame.state[rows] * offset)]
    return SelectionPath(len(frame.state_ids), frame.state[rows], rows, sets.unsafe_score[rows])
