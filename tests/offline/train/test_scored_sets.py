"""A frame is scored by the call that decides online: the same bits, in the frame's order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drsr.errors import LayoutMismatch
from drsr.offline.train.scored_sets import score_frame
from tests.offline.frames import LAYOUT, make_frame
from tests.scorer.test_ensemble import make_ensemble


def test_each_set_has_its_online_score() -> None:
    frame = make_frame("validation", 3)
    order = np.random.default_rng(0).permutation(len(frame))
    columns = ("state", "mask", "direct_saving", "protocol_safe", "harm", "unsafe")
    frame = replace(frame, **{name: getattr(frame, name)[order] for name in columns})
    scorer = replace(make_ensemble(columns=frame.columns), layout_hash=LAYOUT)
    scored = score_frame(scorer, frame)
    for row in range(0, len(frame), 7):
        state, count = frame.state[row], frame.candidate_counts[frame.state[row]]
        alone = scorer.score(
            frame.features[state, :count],
            frame.candidate_savings[state, :count].tolist(),
            [int(frame.mask[row])],
            [int(frame.direct_saving[row])],
        )
        assert scored.predicted_harm[row] == alone.predicted_harm[0]
        assert scored.unsafe_score(0.5)[row] == alone.unsafe_score(0.5)[0]


def test_a_scorer_of_another_layout() -> None:
    frame = make_frame("validation", 3)
    with pytest.raises(LayoutMismatch, match="the scorer reads layout layout"):
        score_frame(make_ensemble(columns=frame.columns), frame)
