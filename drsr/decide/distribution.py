"""The distribution of the features that a policy was fitted on: how far a new request is from it.

A request far outside is decided like any other; the decision says that the policy was not calibrated on anything like
it. Only columns that come from the request's text are compared. They come first in a layout: all of a light policy, the
structural ones of a full policy.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from drsr.errors import PolicyCorrupt
from drsr.features.light import light_layout

DISTRIBUTION_FILE = "distribution.safetensors"
FARTHEST = 10.0
"""Standard deviations of a column that count at most: one absurd value alone must not decide."""
SHOWN = 3
"""Columns that a distance names."""


class Distance(NamedTuple):
    """The distance of a request from the training states."""

    value: float
    """Squared Mahalanobis distance per column, mean over the candidates: about 1 on the training states."""
    limit: float
    columns: tuple[str, ...]
    """The columns that contribute most, the largest first."""

    @property
    def outside(self) -> bool:
        return self.value > self.limit

    def to_json(self) -> dict[str, Any]:
        """Return the distance as plain values for a receipt."""
        about = {"distance": round(self.value, 4), "limit": round(self.limit, 4), "outside": self.outside}
        return {**about, "columns": list(self.columns)}


@dataclass(frozen=True, eq=False)
class TrainingDistribution:
    """Mean, scale and precision of the compared columns, over the candidates of the training states."""

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    precision: NDArray[np.float32]
    """The inverse of the standardised columns' covariance."""

    def contributions(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return (candidates, columns): what each column adds to the squared distance of each candidate, per column."""
        compared = features[:, : len(self.mean)].astype(np.float64)
        standard = np.clip((compared - self.mean) / self.scale, -FARTHEST, FARTHEST)
        # Not by BLAS, whose threads cost more than they save on four rows.
        weighed: NDArray[np.float64] = np.einsum("rc,cd->rd", standard, self.precision.astype(np.float64))
        return standard * weighed / len(self.mean)

    def distance(self, features: NDArray[np.float32], limit: float) -> Distance:
        """Compare the features of one request's candidates."""
        by_column = self.contributions(features).mean(axis=0)
        order = np.argsort(-by_column, kind="stable")[:SHOWN]
        names = light_layout().names
        return Distance(float(by_column.sum()), limit, tuple(names[column] for column in order))

    @cached_property
    def data(self) -> bytes:
        """The file's content: the same for the same numbers."""
        return safetensors_numpy.save({"mean": self.mean, "precision": self.precision, "scale": self.scale})

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def read_distribution(data: bytes, columns: int, where: str) -> TrainingDistribution:
    """Read the distribution from a file's content, for a scorer with that many columns; PolicyCorrupt says what is
    wrong."""
    try:
        tensors = safetensors_numpy.load(data)
        found = TrainingDistribution(**tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PolicyCorrupt(f"is not a distribution of features: {error}", where=where) from None
    most = min(columns, len(light_layout().names))
    count = found.mean.shape[0] if found.mean.ndim == 1 else 0
    shapes = (found.mean.shape, found.scale.shape, found.precision.shape)
    if not 1 <= count <= most or shapes != ((count,), (count,), (count, count)):
        raise PolicyCorrupt(f"has arrays of shapes {shapes}, for at most {most} columns", where=where)
    sound = all(tensor.dtype == np.float32 and np.isfinite(tensor).all() for tensor in tensors.values())
    if not sound or not (found.scale > 0).all():
        raise PolicyCorrupt("has numbers that are not finite, or a scale that is not positive", where=where)
    return found


@dataclass(frozen=True, slots=True)
class DistributionNumbers:
    """The entry for its distribution among a policy's numbers; the arrays are in a file next to them."""

    sha256: str
    """SHA-256 of that file."""
    limit: float
    """The distance that one of twenty training states exceeded when it and its task were left out of the fit."""
    states: int
    """Training and validation states that it was fitted on."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit) and self.limit > 0 and self.states > 0):
            raise PolicyCorrupt("distribution must have a positive limit and states", where="policy.json")
