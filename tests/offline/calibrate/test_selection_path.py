"""All thresholds at once are the selection rule at each."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.decide.selection import SelectionRule, select
from drsr.offline.calibrate.selection_path import selection_path
from tests.offline.frames import make_frame, make_scored, rows_of

FRAME = make_frame("validation", 6, saving_step=50)  # ties in saving, so that the score and the harm decide


@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    cardinality=st.integers(1, 4),
    coefficient=st.sampled_from([0.0, 0.5, 2.0]),
    cap=st.sampled_from([0.05, 0.2, 0.9]),
    levels=st.sampled_from([2, 5, None]),
)
def test_it_is_select_at_every_threshold(
    seed: int, cardinality: int, coefficient: float, cap: float, levels: int | None
) -> None:
    scored = make_scored(FRAME, seed, levels=levels)
    path = selection_path(scored, cardinality, coefficient, cap)
    sets = scored.proposed(coefficient)
    generator = np.random.default_rng(seed)
    thresholds = [-np.inf, np.inf, *generator.choice(sets.unsafe_score, 3), float(generator.random())]
    for threshold in thresholds:
        rule = SelectionRule(cardinality, cap, threshold)
        expected = []
        for state in range(len(FRAME.state_ids)):
            rows = np.flatnonzero(FRAME.state == state)
            found = select(rows_of(sets, rows), int(FRAME.request_tokens[state]), rule)
            expected.append(-1 if found.chosen is None else int(rows[found.chosen]))
        assert path.at(threshold).tolist() == expected


def test_no_set_is_valid_anywhere() -> None:
    path = selection_path(make_scored(FRAME), 3, 0.0, 1e-9)
    assert len(path.row) == len(path.previous) == 0
    assert (path.at(np.inf) == -1).all()
