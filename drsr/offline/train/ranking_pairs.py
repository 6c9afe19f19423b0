"""Pairs of deletion sets within groups, enumerated once and without a loop over rows.

Training ranks pairs of one source trajectory and one cardinality (paper, appendix "Harm Standardization and Ranking");
metrics also look at pairs within one state. The grouping is the caller's: see `group_numbers`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pairs(NamedTuple):
    """Unordered pairs, each once: row numbers, the first smaller than the second."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]


class RankingPairs(NamedTuple):
    """The pairs that training ranks."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    sign: NDArray[np.float32]
    """+1 where the first set's harm is larger, -1 where the second's is."""
    weight: NDArray[np.float32]
    """omega (paper, Eq. rankweight)."""


def group_numbers(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number from 0 for each row, the same for rows that agree in all keys."""
    return np.unique(np.stack(keys), axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def pairs_within(group: NDArray[np.int64]) -> Pairs:
    """Return all pairs of rows of the same group, in the order of their groups' first appearance by size."""
    order = np.argsort(group, kind="stable")
    _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
    first, second = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for size in np.unique(sizes[sizes > 1]):
        # Groups of one size form a matrix of row numbers; there are few sizes (the paper's groups: 3 to 18 sets).
        members = order[starts[sizes == size][:, None] + np.arange(size)]
        left, right = np.triu_indices(size, 1)
        first.append(members[:, left].ravel())
        second.append(members[:, right].ravel())
    return Pairs(np.concatenate(first), np.concatenate(second))


def ranking_pairs(
    trajectory: NDArray[np.int64],
    cardinality: NDArray[np.int64],
    harm: NDArray[np.float64],
    *,
    minimum_gap: float,
    full_gap: float,
    base_weight: float,
) -> RankingPairs:
    """Return pairs of one trajectory and cardinality whose harms differ by `minimum_gap` or more, with their
    weights."""
    first, second = pairs_within(group_numbers(trajectory, cardinality))
    difference = harm[first] - harm[second]
    gap = np.abs(difference)
    kept = gap >= minimum_gap
    weight = base_weight + (1 - base_weight) * np.minimum(gap[kept] / full_gap, 1)
    return RankingPairs(
        first[kept], second[kept], np.sign(difference[kept]).astype(np.float32), weight.astype(np.float32)
    )
