"""A deterministic double of a scorer. It ships with drsr, reads any features, and its scores are a hash of its input.

For fuzzing and for other people's tests: every deletion set gets scores that look random and are the same on every
machine. They mean nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drsr.request.contracts import SetScores


class ScriptedScorer:
    """The double of a scorer. Implements `drsr.request.contracts.SetScorer`."""

    def __init__(self, layout_hash: str, seed: int = 0, *, steps: int = 0) -> None:
        """`steps` above 0 rounds scores to this number of values, so that ties occur."""
        self.layout_hash = layout_hash
        self.seed = seed
        self.steps = steps

    def score(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> SetScores:
        """Return three numbers in [0, 1) for each set, from the seed, the features and the set."""
        asked = hashlib.sha256(f"scripted scorer/1 {self.seed} {list(candidate_savings)}".encode())
        asked.update(np.ascontiguousarray(features, dtype="<f4").tobytes())
        rows = [self._numbers(asked, mask, saving) for mask, saving in zip(masks, direct_savings, strict=True)]
        harm, mean, deviation = np.array(rows, dtype=np.float64).reshape(len(rows), 3).T
        return SetScores(predicted_harm=harm - 0.5, unsafe_mean=mean, unsafe_std=deviation / 2)

    def _numbers(self, asked: hashlib._Hash, mask: int, saving: int) -> list[float]:
        hashed = asked.copy()
        hashed.update(f"{mask} {saving}".encode())
        numbers = np.frombuffer(hashed.digest()[:24], dtype="<u8") >> 11
        drawn: list[float] = (numbers / float(1 << 53)).tolist()
        return [int(number * self.steps) / self.steps for number in drawn] if self.steps else drawn
