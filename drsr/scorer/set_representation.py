"""The set representation r(A) of every deletion set of a state (paper, Eq. setrep_exact): 7 x 64 + 3 = 451 numbers.

All non-empty subsets of n candidates are represented together, the set with bit mask m in row m - 1. That makes the
computation small: the summary of what A leaves is the summary of what its complement deletes, so each subset is pooled
once, from a subset with one member less. And a set is always in the same row of a computation of the same shape, so its
score is the same to the last bit whichever other sets were requested.

Arrays are numpy's when deciding and torch's when training: `xp` is the module, and only functions that exist in both
under one name with one meaning are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A numpy array or a torch tensor, to match the `xp` that was passed."""

EMBEDDING = 64
"""Coordinates of a candidate's embedding."""
DIMENSION = 7 * EMBEDDING + 3
"""Coordinates of a set representation: 451."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the representation that carry information. The others are zero; the dimension stays 451."""

    retained_context: bool = True
    """Mean and maximum of what stays, and the two comparisons with it."""
    pair_pooling: bool = True
    """The average product over pairs of deleted candidates."""


ALL_PARTS = Parts()


def cardinalities(candidates: int) -> NDArray[np.int64]:
    """Return |A| of every non-empty subset of this number of candidates, by row."""
    return np.array([mask.bit_count() for mask in range(1, 1 << candidates)], dtype=np.int64)


def budget_terms(direct_savings: NDArray[np.int64], candidate_savings: NDArray[np.int64]) -> NDArray[np.float32]:
    """b(A) (paper, Eq. budget): shape (..., 2^n - 1, 3).

    `direct_savings` (..., 2^n - 1) is w(A) in tokens by row; `candidate_savings` (..., n) is w of each candidate alone.
    """
    candidates = candidate_savings.shape[-1]
    share_of_candidates = np.broadcast_to(cardinalities(candidates) / candidates, direct_savings.shape)
    share_of_savings = direct_savings / candidate_savings.sum(axis=-1, keepdims=True)
    terms = np.stack([share_of_candidates, np.log1p(direct_savings) / 10, share_of_savings], axis=-1)
    return terms.astype(np.float32)


def represent(embeddings: Array, budget: Array, parts: Parts = ALL_PARTS, xp: ModuleType = np) -> Array:
    """r(A) for all subsets: shape (..., 2^n - 1, 451) from embeddings (..., n, 64) and budget (..., 2^n - 1, 3).

    Row m - 1 holds [mean_D, mean_R, max_D, max_R, pairs_D, mean_D * mean_R, |mean_D - mean_R|, b] for D = the
    candidates whose bits are set in m and R = the others. The summaries of an empty group are zero.
    """
    mean, maximum, pairs = _pooled(embeddings, xp)
    zeros = xp.zeros_like(mean)
    if not parts.pair_pooling:
        pairs = zeros
    if not parts.retained_context:
        return xp.concatenate([mean, zeros, maximum, zeros, pairs, zeros, zeros, budget], axis=-1)
    mean_rest, maximum_rest = _of_complements(mean, xp), _of_complements(maximum, xp)
    product, difference = mean * mean_rest, abs(mean - mean_rest)
    return xp.concatenate([mean, mean_rest, maximum, maximum_rest, pairs, product, difference, budget], axis=-1)


def _pooled(embeddings: Array, xp: ModuleType) -> tuple[Array, Array, Array]:
    """Mean, maximum and pair statistic (paper, Eq. pairpool) of every non-empty subset: (..., 2^n - 1, 64) each."""
    candidates = embeddings.shape[-2]
    sums = maximum = embeddings[..., :1, :]
    squares = sums * sums
    for place in range(1, candidates):
        # The subsets up to here, the new candidate alone, and each of those with it: masks in rising order.
        new = embeddings[..., place : place + 1, :]
        new_square = new * new
        sums = xp.concatenate([sums, new, sums + new], axis=-2)
        squares = xp.concatenate([squares, new_square, squares + new_square], axis=-2)
        maximum = xp.concatenate([maximum, new, xp.maximum(maximum, new)], axis=-2)
    sizes = cardinalities(candidates).tolist()
    per_member = xp.asarray([[1 / size] for size in sizes], dtype=embeddings.dtype)
    # 2 * binomial(size, 2) = size * (size - 1); of a singleton the numerator is exactly zero.
    per_pair = xp.asarray([[1 / max(size * (size - 1), 1)] for size in sizes], dtype=embeddings.dtype)
    return sums * per_member, maximum, (sums * sums - squares) * per_pair


def _of_complements(pooled: Array, xp: ModuleType) -> Array:
    """Return the same summary of what each set leaves: masks in descending order, and zero if nothing is left."""
    return xp.concatenate([xp.flip(pooled[..., :-1, :], (-2,)), xp.zeros_like(pooled[..., :1, :])], axis=-2)
