"""A frame's deletion sets as a scorer sees them: what calibration, certificates and metrics work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from drsr.decide.selection import ProposedSets
from drsr.errors import LayoutMismatch
from drsr.offline.train.examples import ExampleFrame, FrameKind
from drsr.request.contracts import SetScorer
from drsr.scorer.frozen import FrozenScorer, MemberScores

Frame_co = TypeVar("Frame_co", bound=ExampleFrame, covariant=True)


@dataclass(frozen=True, eq=False)
class ScoredSets(Generic[Frame_co]):
    """Predictions for every labelled set, in the frame's order."""

    frame: Frame_co
    predicted_harm: NDArray[np.float64]
    unsafe_mean: NDArray[np.float64]
    unsafe_std: NDArray[np.float64]

    def unsafe_score(self, uncertainty_coefficient: float) -> NDArray[np.float64]:
        """U(A) = mean + beta * std."""
        return self.unsafe_mean + uncertainty_coefficient * self.unsafe_std

    def proposed(self, uncertainty_coefficient: float) -> ProposedSets:
        """Return the same sets in the form that selection takes."""
        return ProposedSets(
            self.frame.cardinality,
            self.frame.direct_saving,
            self.frame.protocol_safe,
            self.unsafe_score(uncertainty_coefficient),
            self.predicted_harm,
        )


def score_frame(scorer: SetScorer, frame: FrameKind) -> ScoredSets[FrameKind]:
    """Score state by state, by the very call that decides online: thresholds chosen here hold there to the last bit."""
    _check_layout(scorer, frame)
    scores = np.empty((3, len(frame)))
    for rows, asked in _questions(frame):
        scores[:, rows] = scorer.score(*asked)
    return ScoredSets(frame, *scores)


def member_scores(scorer: FrozenScorer, frame: ExampleFrame) -> MemberScores:
    """Predicted harm and unsafe score of every set by each member: two arrays (members, sets)."""
    _check_layout(scorer, frame)
    harm, unsafe = np.empty((2, len(scorer.seeds), len(frame)))
    for rows, asked in _questions(frame):
        harm[:, rows], unsafe[:, rows] = scorer.member_scores(*asked)
    return harm, unsafe


def _check_layout(scorer: SetScorer, frame: ExampleFrame) -> None:
    if scorer.layout_hash != frame.layout_hash:
        raise LayoutMismatch(f"the scorer reads layout {scorer.layout_hash}, the examples have {frame.layout_hash}")


_Question = tuple[NDArray[np.float32], list[int], list[int], list[int]]


def _questions(frame: ExampleFrame) -> Iterator[tuple[NDArray[np.int64], _Question]]:
    """Return, for each state, its rows and the input of a scorer for them."""
    order = np.argsort(frame.state, kind="stable")
    ends = np.flatnonzero(np.diff(frame.state[order], append=-1)) + 1
    for rows in np.split(order, ends[:-1]):
        state = int(frame.state[rows[0]])
        count = int(frame.candidate_counts[state])
        yield (
            rows,
            (
                frame.features[state, :count],
                frame.candidate_savings[state, :count].tolist(),
                frame.mask[rows].tolist(),
                frame.direct_saving[rows].tolist(),
            ),
        )
