"""The deletion sets of a decision: every non-empty subset of its candidates, measured on the real rewrite."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

from drsr.decide.candidates import DecisionState
from drsr.request.history import Removal, removal
from drsr.request.protocol import Violation
from drsr.request.removals import Removals


class DeletionSet(NamedTuple):
    """A subset A of the candidates."""

    members: tuple[int, ...]
    """Positions in the candidate list, ascending."""
    removal: Removal
    """Parts, messages and tokens that disappear when the members are deleted together."""
    direct_saving: int
    """w(A) in tokens of the full request. Not the sum over its members: a message that loses all parts vanishes."""
    violations: tuple[Violation, ...]
    """Protocol rules that the rewrite breaks and the original does not. Empty means protocol-safe."""

    @property
    def mask(self) -> int:
        """Bit i is set when candidate i is deleted: the set's identity within its state."""
        return sum(1 << member for member in self.members)


def deletion_sets(state: DecisionState, max_cardinality: int) -> tuple[DeletionSet, ...]:
    """Return all non-empty subsets with at most `max_cardinality` members, ordered by size, then by position."""
    judge = Removals(state.history.request, state.violations)
    found = []
    for size in range(1, min(max_cardinality, len(state.candidates)) + 1):
        for members in combinations(range(len(state.candidates)), size):
            found.append(_measured(state, judge, members))
    return tuple(found)


def _measured(state: DecisionState, judge: Removals, members: tuple[int, ...]) -> DeletionSet:
    removed = removal(state.history, [state.candidates[member].block for member in members])
    return DeletionSet(
        members=members,
        removal=removed,
        direct_saving=state.rendering.direct_saving(removed),
        violations=judge.new_violations(removed),
    )
