"""A trained scorer: normaliser and members, as one `SetScorer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.errors import LayoutMismatch, ScorerError
from drsr.request.contracts import SetScores
from drsr.scorer.network import MAX_CANDIDATES, forward
from drsr.scorer.set_representation import ALL_PARTS, Parts, budget_terms

_CONSTANT = 1e-6
"""A column whose deviation is below this part of its mean never varied: what is left of it is rounding."""


class Normaliser(NamedTuple):
    """z-scores by column, fitted on the candidates of the training states and frozen."""

    mean: NDArray[np.float32]
    inverse_scale: NDArray[np.float32]
    """1 / standard deviation; 0 for a column that is not used, so that no value of it can reach the network."""

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return (features - self.mean) * self.inverse_scale


def fit_normaliser(candidates: NDArray[np.float32], used: NDArray[np.bool_] | None = None) -> Normaliser:
    """Fit on one row per candidate. Columns outside `used`, and columns that never vary, are ignored from then on."""
    mean = candidates.mean(axis=0, dtype=np.float64)
    deviation = candidates.std(axis=0, dtype=np.float64)
    informative = deviation > _CONSTANT * np.maximum(np.abs(mean), 1.0)
    if used is not None:
        informative &= used
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=informative)
    return Normaliser(mean.astype(np.float32), inverse.astype(np.float32))


class HarmScale(NamedTuple):
    """The scale from the harm heads' outputs to nats per token: output * scale + mean, of the training labels."""

    mean: float
    scale: float


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The members of one training run, computed together. Implements `drsr.request.contracts.SetScorer`."""

    layout_hash: str
    """Of the feature layout it was trained on: its columns mean nothing under another."""
    seeds: tuple[int, ...]
    """One per member, in the order of the weights' first axis."""
    normaliser: Normaliser
    harm_scale: HarmScale
    parameters: Mapping[str, NDArray[np.float32]]
    parts: Parts = ALL_PARTS
    """Which parts of the representation it was trained with."""

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
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicted harm and unsafe score by member: two arrays (members, sets)."""
        self._check(features, candidate_savings, masks, direct_savings)
        rows = np.asarray(masks, dtype=np.int64) - 1
        # Sets that were not asked for are computed too, with no saving, and dropped: see set_representation.
        savings = np.zeros((1 << len(features)) - 1, dtype=np.int64)
        savings[rows] = direct_savings
        budget = budget_terms(savings, np.asarray(candidate_savings, dtype=np.int64))
        outputs = forward(self.parameters, self.normaliser(features)[None], budget[None], self.parts)
        harm, logit = (output[:, 0, rows].astype(np.float64) for output in outputs)
        if not (np.isfinite(harm).all() and np.isfinite(logit).all()):
            raise ScorerError("the scorer's output is not finite", hint="look for extreme values in the features")
        # The logistic function, precise for small scores and without overflow.
        return harm * self.harm_scale.scale + self.harm_scale.mean, np.exp(-np.logaddexp(0.0, -logit))

    def _check(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> None:
        expected = len(self.normaliser.mean)
        if features.ndim != 2 or features.shape[1] != expected:
            raise LayoutMismatch(
                f"the scorer reads {expected} features per candidate; it was given an array of shape {features.shape}",
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
