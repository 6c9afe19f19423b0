"""Weights by source: their formula, and what they do to trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drsr.offline.train.learners.described import described_sets
from drsr.offline.train.learners.trees import fit_trees
from drsr.offline.train.source_balance import WHOLE, state_weights
from drsr.scorer.weights import scorer_bytes
from tests.offline.frames import make_frame, params

FRAME = make_frame("train", 20)
SOURCES = replace(
    FRAME,
    trajectory_ids=tuple(f"{'large' if n < 36 else 'small'}/{name}" for n, name in enumerate(FRAME.trajectory_ids)),
)
USED = np.arange(FRAME.columns).astype(np.int32)


@pytest.mark.parametrize(
    ("balance", "large", "small"),
    [(0.0, 1.0, 1.0), (1.0, 40 / (2 * 36), 40 / (2 * 4)), (0.5, (40 / 72) ** 0.5, 5**0.5)],
)
def test_the_weight_of_a_source(balance: float, large: float, small: float) -> None:
    weights = state_weights(SOURCES, balance) / WHOLE
    np.testing.assert_allclose(weights[:36], large, atol=0.5 / WHOLE)
    np.testing.assert_allclose(weights[36:], small, atol=0.5 / WHOLE)


def test_at_balance_one_every_source_counts_the_same() -> None:
    weights = state_weights(SOURCES, 1.0)
    assert weights[:36].sum() == pytest.approx(weights[36:].sum(), rel=1e-3)


def test_sets_weigh_as_their_state_and_trees_see_it() -> None:
    sets = described_sets(SOURCES, USED, 0.15, retained_context=True, balance=1.0)
    np.testing.assert_array_equal(sets.weight, (state_weights(SOURCES, 1.0) / WHOLE)[SOURCES.state])
    trained = params().train
    few = replace(trained, scorer="trees", trees=replace(trained.trees, trees=5))
    plain = scorer_bytes(fit_trees(SOURCES, few, USED, retained_context=True))
    assert plain == scorer_bytes(fit_trees(FRAME, few, USED, retained_context=True))
    assert plain != scorer_bytes(fit_trees(SOURCES, replace(few, source_balance=1.0), USED, retained_context=True))
