"""Boosted trees as plain arrays: each member has trees for the unsafe score and trees for the harm. Numpy alone.

A node is five numbers at one index of five arrays; a leaf's branches lead to itself, so that all trees are walked
together for as many steps as the deepest of them has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.frozen import FrozenScorer, MemberScores, logistic
from drsr.scorer.set_description import describe, width

HEADS = ("unsafe", "harm")
"""The unsafe trees add up to a logit, the harm trees to nats per token."""


class Forest(NamedTuple):
    """Many trees. Arrays have one entry per node, unless they say otherwise."""

    column: NDArray[np.int32]
    """Number of the description that is compared; -1 in a leaf."""
    threshold: NDArray[np.float64]
    """A set goes left if its number is at most this."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    """The nodes below; of a leaf the leaf itself."""
    value: NDArray[np.float64]
    """Value that a leaf adds; 0 elsewhere."""
    roots: NDArray[np.int32]
    """(members, heads, trees): where each tree begins."""
    baseline: NDArray[np.float64]
    """(members, heads): what the trees are added to."""

    def outputs(self, described: NDArray[np.float64]) -> NDArray[np.float64]:
        """Baseline plus leaves: (members, heads, sets) from (sets, numbers)."""
        sets = np.arange(len(described))
        node = np.broadcast_to(self.roots[..., None], (*self.roots.shape, len(described)))
        while (self.column[node] >= 0).any():
            goes_left = described[sets, self.column[node]] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        # One after another, as boosting added them: a sum in another order has other last bits.
        start = np.broadcast_to(self.baseline[..., None, None], (*self.baseline.shape, 1, len(described)))
        steps = np.cumsum(np.concatenate([start, self.value[node]], axis=2), axis=2)
        added: NDArray[np.float64] = steps[:, :, -1]
        return added


@dataclass(frozen=True, eq=False)
class TreeScorer(FrozenScorer):
    """Boosted trees on descriptions of sets."""

    layout_columns: int
    """Number of columns in the layout; the scorer uses some of them."""
    used: NDArray[np.int32]
    """The columns that are described, in order."""
    forest: Forest
    retained_context: bool = True
    """True if it was trained with the description of what remains."""

    @property
    def columns(self) -> int:
        return self.layout_columns

    def alone(self, member: int) -> TreeScorer:
        forest = self.forest
        mine = forest._replace(roots=forest.roots[member : member + 1], baseline=forest.baseline[member : member + 1])
        return replace(self, seeds=self.seeds[member : member + 1], forest=mine)

    def _of_all_sets(
        self, features: NDArray[np.float32], candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]
    ) -> MemberScores:
        described = describe(features[:, self.used], candidate_savings, savings, retained_context=self.retained_context)
        logit, harm = self.forest.outputs(described).swapaxes(0, 1)
        return harm, logistic(logit)


def problem_of(scorer: TreeScorer) -> str | None:
    """Return what is wrong with a forest read from a file, or None: a walk through it must end in a leaf."""
    forest, nodes = scorer.forest, len(scorer.forest.column)
    if not all(len(part) == nodes for part in forest[:5]) or nodes == 0:
        return "its trees' arrays differ in length, or are empty"
    members = len(scorer.seeds)
    if forest.roots.shape[:2] != (members, len(HEADS)) or forest.baseline.shape != (members, len(HEADS)):
        return f"it has no trees for each of {members} members and {len(HEADS)} heads"
    places = np.concatenate([forest.left, forest.right, forest.roots.ravel()])
    if places.min() < 0 or places.max() >= nodes:
        return "a branch of its trees leads nowhere"
    if forest.column.min() < -1 or forest.column.max() >= width(len(scorer.used)):
        return "its trees compare numbers that no description has"
    here, inner = np.arange(nodes), forest.column >= 0
    # Nodes are written from the root down, so below is behind: no walk can go in circles.
    if not ((forest.left > here) & (forest.right > here))[inner].all():
        return "its trees go in circles"
    if not ((forest.left == here) & (forest.right == here))[~inner].all():
        return "a leaf of its trees has branches"
    numbers = np.concatenate([forest.threshold, forest.value, forest.baseline.ravel()])
    if not np.isfinite(numbers).all():
        return "a number of its trees is not finite"
    if len(scorer.used) == 0 or scorer.used.min() < 0 or scorer.used.max() >= scorer.layout_columns:
        return "it uses columns that the layout does not have"
    return None
