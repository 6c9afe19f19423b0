"""The average of several scorers: member by member, so that their disagreement keeps its meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drsr.scorer.frozen import FrozenScorer, MemberScores


@dataclass(frozen=True, eq=False)
class StackedScorer(FrozenScorer):
    """The mean of its parts' predictions. The parts have the same layout and the same seeds."""

    parts: tuple[FrozenScorer, ...]

    @property
    def columns(self) -> int:
        return self.parts[0].columns

    def alone(self, member: int) -> StackedScorer:
        parts = tuple(part.alone(member) for part in self.parts)
        return replace(self, seeds=self.seeds[member : member + 1], parts=parts)

    def _of_all_sets(
        self, features: NDArray[np.float32], candidate_savings: NDArray[np.int64], savings: NDArray[np.int64]
    ) -> MemberScores:
        each = [part._of_all_sets(features, candidate_savings, savings) for part in self.parts]
        harm, unsafe = (np.mean(head, axis=0) for head in zip(*each, strict=True))
        return harm, unsafe
