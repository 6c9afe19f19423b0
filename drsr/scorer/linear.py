"""Linear models on standardised descriptions of sets: each member has one for the unsafe score and one for the harm."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.frozen import FrozenScorer, MemberScores, logistic
from drsr.scorer.set_description import describe, width
from drsr.scorer.trees import HEADS


@dataclass(frozen=True, eq=False)
class LinearScorer(FrozenScorer):
    """Logistic regression for the unsafe score, ridge regression for the harm."""

    layout_columns: int
    """Number of columns in the layout; the scorer uses some of them."""
    used: NDArray[np.int32]
    """The columns that are described, in order."""
    mean: NDArray[np.float64]
    """Mean of each number of the description, over the training sets."""
    inverse_scale: NDArray[np.float64]
    """1 / standard deviation; 0 for a number that never varied."""
    weights: NDArray[np.float64]
    """(members, heads, numbers of a description)."""
    intercept: NDArray[np.float64]
    """(members, heads)."""
    retained_context: bool = True
    """True if it was trained with the description of what remains."""

    @property
    def columns(self) -> int:
        return self.layout_columns

    def alone(self, member: int) -> LinearScorer:
        mine = slice(member, member + 1)
        return replace(self, seeds=self.seeds[mine], weights=self.weights[mine], intercept=self.intercept[mine])

    def _of_all_sets(
        self, features: NDArray[np.float32], candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]
    ) -> MemberScores:
        described = describe(features[:, self.used], candidate_savings, savings, retained_context=self.retained_context)
        standard = (described - self.mean) * self.inverse_scale
        logit, harm = (self.weights @ standard.T + self.intercept[..., None]).swapaxes(0, 1)
        return harm, logistic(logit)


def problem_of(scorer: LinearScorer) -> str | None:
    """Return what is wrong with a scorer read from a file, or None."""
    if len(scorer.used) == 0 or scorer.used.min() < 0 or scorer.used.max() >= scorer.layout_columns:
        return "it uses columns that the layout does not have"
    numbers, members = width(len(scorer.used)), len(scorer.seeds)
    if scorer.mean.shape != (numbers,) or scorer.inverse_scale.shape != (numbers,):
        return f"a description has {numbers} numbers, its standardisation has not"
    if scorer.weights.shape != (members, len(HEADS), numbers) or scorer.intercept.shape != (members, len(HEADS)):
        return f"it has no weights for each of {members} members, {len(HEADS)} heads and {numbers} numbers"
    parts = (scorer.mean, scorer.inverse_scale, scorer.weights, scorer.intercept)
    return None if all(np.isfinite(part).all() for part in parts) else "a weight is not finite"
