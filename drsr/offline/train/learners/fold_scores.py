"""Scores by members that never saw the task of what they score: one array per head, kept as a safetensors file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from drsr.errors import ArtifactCorrupt
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets

Floats = NDArray[np.float64]


class FoldScores(NamedTuple):
    """Scores of the joined frame of train and validation, in its order."""

    fold: NDArray[np.int64]
    """Fold of each state: the one whose members did not see it."""
    harm: Floats
    """(members, sets) predicted harm, nats per token."""
    unsafe: Floats
    """(members, sets) unsafe score."""

    def scored(self, frame: TrainingFrame) -> ScoredSets[TrainingFrame]:
        """Return them as the scores of an ensemble: mean and deviation over its members."""
        return ScoredSets(frame, self.harm.mean(axis=0), self.unsafe.mean(axis=0), self.unsafe.std(axis=0))

    def to_bytes(self) -> bytes:
        """Return the scores as bytes: the same scores give the same bytes."""
        return safetensors_numpy.save({name: np.ascontiguousarray(part) for name, part in self._asdict().items()})


class Histograms(NamedTuple):
    """The distributions of unsafe scores, as shares of each tenth from 0 to 1. Cross-fitting assumes that the two are
    similar."""

    fold: list[float]
    """Scores of fold members, of sets of tasks that they did not see."""
    final: list[float]
    """Scores of final members, of sets of tasks that they did not draw or stopped by."""


def shares_by_tenth(scores: Floats) -> list[float]:
    """Return the share of scores in each tenth from 0 to 1."""
    counts, _ = np.histogram(scores, bins=10, range=(0.0, 1.0))
    shares: list[float] = (counts / max(len(scores), 1)).tolist()
    return shares


def read_fold_scores(data: bytes, frame: TrainingFrame) -> FoldScores:
    """Read what `to_bytes` wrote about a frame; raise ArtifactCorrupt if it is not about this one."""
    try:
        found = FoldScores(**safetensors_numpy.load(data))
    except (SafetensorError, TypeError, ValueError) as error:
        raise ArtifactCorrupt(f"fold scores cannot be read: {error}", where="training run") from None
    sets = (len(found.harm), len(frame))
    if found.fold.shape != (len(frame.state_ids),) or found.harm.shape != sets or found.unsafe.shape != sets:
        raise ArtifactCorrupt("fold scores are not of these states and sets", where="training run")
    return found
