"""The paper's scorer: normaliser and networks, as one `SetScorer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.frozen import FrozenScorer, MemberScores, logistic
from drsr.scorer.network import forward
from drsr.scorer.set_representation import ALL_PARTS, Parts, budget_terms

_CONSTANT = 1e-6
"""Share of a column's mean below which its deviation counts as zero: what is left is rounding."""


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


def fit_harm_scale(harm: NDArray[np.float64], floor: float) -> HarmScale:
    """Return the mean and deviation (of the population) of the training labels, the latter not below `floor`."""
    return HarmScale(float(harm.mean()), max(float(harm.std()), floor))


@dataclass(frozen=True, eq=False)
class Ensemble(FrozenScorer):
    """The paper's networks, all members computed at once."""

    normaliser: Normaliser
    harm_scale: HarmScale
    parameters: Mapping[str, NDArray[np.float32]]
    """Weights by name; their first axis is the member, in the order of the seeds."""
    parts: Parts = ALL_PARTS
    """Parts of the representation that it was trained with."""

    @property
    def columns(self) -> int:
        return len(self.normaliser.mean)

    def alone(self, member: int) -> Ensemble:
        parameters = {name: values[member : member + 1] for name, values in self.parameters.items()}
        return replace(self, seeds=self.seeds[member : member + 1], parameters=parameters)

    def _of_all_sets(
        self, features: NDArray[np.float32], candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]
    ) -> MemberScores:
        budget = budget_terms(savings, candidate_savings)
        outputs = forward(self.parameters, self.normaliser(features)[None], budget[None], self.parts)
        harm, logit = (output[:, 0].astype(np.float64) for output in outputs)
        return harm * self.harm_scale.scale + self.harm_scale.mean, logistic(logit)
