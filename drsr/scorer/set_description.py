"""The description of every deletion set of a state in the columns' own terms: what trees and linear scorers read.

Of each column that is used: sum, largest and smallest over the deleted candidates, and the mean over those that stay.
Then four numbers about the set itself. Nothing here is learned, so few examples are enough to fit what reads it; the
representation of `set_representation.py` is learned and needs many.

All non-empty subsets of n candidates are described together, the set with bit mask m in row m - 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.set_representation import cardinalities

SUMMARIES = ("sum", "largest", "smallest", "rest")
"""Summaries in which each column takes part, in this order: all columns' sums first."""
ABOUT = ("deleted", "candidates", "log_saving", "share_of_savings")
"""The numbers about the set itself, after the summaries."""


def width(columns: int) -> int:
    """Return the length of a description of this number of columns."""
    return len(SUMMARIES) * columns + len(ABOUT)


def describe(
    features: NDArray[np.float32],
    candidate_savings: NDArray[np.int64],
    savings: NDArray[np.int64],
    *,
    retained_context: bool = True,
) -> NDArray[np.float64]:
    """Shape (..., 2^n - 1, width) from features (..., n, columns), the saving of each candidate alone (..., n) and of
    each set (..., 2^n - 1). Without `retained_context` what stays is described by zeros.

    In double precision: a sum of four 32-bit numbers is then the same on every machine, and so is its side of a
    threshold.
    """
    total = largest = smallest = features[..., :1, :].astype(np.float64)
    for place in range(1, features.shape[-2]):
        # The subsets up to here, the new candidate alone, and each of those with it: masks in rising order.
        new = features[..., place : place + 1, :].astype(np.float64)
        total = np.concatenate([total, new, total + new], axis=-2)
        largest = np.concatenate([largest, new, np.maximum(largest, new)], axis=-2)
        smallest = np.concatenate([smallest, new, np.minimum(smallest, new)], axis=-2)
    about = _about(candidate_savings, savings)
    stay = about[..., 1:2] - about[..., 0:1]
    # What a set leaves is what its complement deletes: masks in falling order, and nothing behind the last.
    rest = np.concatenate([total[..., -2::-1, :], np.zeros_like(total[..., :1, :])], axis=-2) / np.maximum(stay, 1.0)
    if not retained_context:
        rest = np.zeros_like(rest)
    return np.concatenate([total, largest, smallest, rest, about], axis=-1)


def _about(candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]) -> NDArray[np.float64]:
    candidates = candidate_savings.shape[-1]
    deleted = np.broadcast_to(cardinalities(candidates).astype(np.float64), savings.shape)
    share = savings / candidate_savings.sum(axis=-1, keepdims=True)
    return np.stack([deleted, np.full(savings.shape, float(candidates)), np.log1p(savings), share], axis=-1)
