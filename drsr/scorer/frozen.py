"""A trained scorer that a policy can be frozen with: members of any kind, each of which predicts, computed together.

Ensemble       `ensemble.py`: the paper's networks
TreeScorer     `trees.py`: boosted trees on descriptions of sets
LinearScorer   `linear.py`: linear models on the same descriptions
StackedScorer  `stack.py`: the average of others
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drsr.errors import LayoutMismatch, ScorerError
from drsr.request.contracts import SetScores
from drsr.scorer.network import MAX_CANDIDATES

MemberScores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Predicted harm in nats per token and unsafe score between 0 and 1, each (members, sets)."""


@dataclass(frozen=True, eq=False)
class FrozenScorer(ABC):
    """The members of one training run. Implements `drsr.request.contracts.SetScorer`."""

    layout_hash: str
    """Hash of the feature layout it was trained on: its columns mean nothing under another."""
    seeds: tuple[int, ...]
    """One per member."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Features per candidate that it is handed."""

    @abstractmethod
    def alone(self, member: int) -> FrozenScorer:
        """Return one member as a separate scorer."""

    @abstractmethod
    def _of_all_sets(
        self, features: NDArray[np.float32], candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]
    ) -> MemberScores:
        """Scores of every non-empty subset, the set with bit mask m in column m - 1; `savings` has the same order."""

    def score(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> SetScores:
        """Predictions for the deletion sets of one decision; see `drsr.request.contracts.SetScorer`."""
        harm, unsafe = self.member_scores(features, candidate_savings, masks, direct_savings)
        return SetScores(
            predicted_harm=harm.mean(axis=0),
            unsafe_mean=unsafe.mean(axis=0),
            # The population's deviation: the members are the whole ensemble, not a sample from a larger one.
            unsafe_std=unsafe.std(axis=0),
        )

    def member_scores(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> MemberScores:
        """Predicted harm and unsafe score by member: two arrays (members, sets)."""
        self._check(features, candidate_savings, masks, direct_savings)
        rows = np.asarray(masks, dtype=np.int64) - 1
        # Sets that were not asked for are computed too, with no saving, and dropped: a set always stands in the same
        # row of a computation of the same shape, so its score is the same to the last bit whatever else is asked.
        savings = np.zeros((1 << len(features)) - 1, dtype=np.int64)
        savings[rows] = direct_savings
        harm, unsafe = self._of_all_sets(features, np.asarray(candidate_savings, dtype=np.int64), savings)
        harm, unsafe = harm[:, rows], unsafe[:, rows]
        if not (np.isfinite(harm).all() and np.isfinite(unsafe).all()):
            raise ScorerError("the scorer's output is not finite", hint="look for extreme values in the features")
        return harm, unsafe

    def _check(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> None:
        if features.ndim != 2 or features.shape[1] != self.columns:
            raise LayoutMismatch(
                f"the scorer reads {self.columns} features per candidate; it was given an array of shape "
                f"{features.shape}",
                hint="compute the features with the backbone and layout that the scorer was trained on",
            )
        candidates = len(features)
        if not 1 <= candidates <= MAX_CANDIDATES:
            raise ScorerError(f"{candidates} candidates; the scorer has heads for 1 to {MAX_CANDIDATES}")
        if not np.isfinite(features).all():
            raise ScorerError("a feature is not finite", hint="recompute the features of this decision")
        if len(candidate_savings) != candidates or min(candidate_savings) <= 0:
            raise ScorerError(f"{candidates} candidates need as many positive savings, not {list(candidate_savings)}")
        if len(masks) != len(direct_savings) or len(set(masks)) != len(masks):
            raise ScorerError(f"{len(masks)} deletion sets, {len(direct_savings)} savings: one each, no set twice")
        if len(masks) and not (min(masks) > 0 and max(masks) < 1 << candidates and min(direct_savings) >= 0):
            raise ScorerError(f"deletion sets of {candidates} candidates have masks 1 to {(1 << candidates) - 1}")


def logistic(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logistic function, precise for small scores and without overflow. Values that are not finite stay
    so."""
    finite = np.isfinite(logit)
    return np.where(finite, np.exp(-np.logaddexp(0.0, -np.where(finite, logit, 0.0))), np.nan)
