"""The description of sets, against a slow twin that loops over members."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from drsr.scorer.set_description import ABOUT, SUMMARIES, describe, width

COLUMNS = 3


def slow_twin(
    features: NDArray[np.float32], candidate_savings: list[int], saving: int, mask: int, *, retained: bool
) -> list[float]:
    count = len(features)
    deleted = [place for place in range(count) if mask >> place & 1]
    stay = [place for place in range(count) if place not in deleted]
    columns = [[float(value) for value in features[:, column]] for column in range(features.shape[1])]
    numbers = [sum(column[place] for place in deleted) for column in columns]
    numbers += [max(column[place] for place in deleted) for column in columns]
    numbers += [min(column[place] for place in deleted) for column in columns]
    for column in columns:
        numbers.append(sum(column[place] for place in stay) / len(stay) if stay and retained else 0.0)
    return [*numbers, float(len(deleted)), float(count), float(np.log1p(saving)), saving / sum(candidate_savings)]


@given(st.integers(1, 4), st.booleans(), st.integers(0, 2**32))
def test_every_set_is_described_as_the_slow_twin_does(count: int, retained: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, COLUMNS)).astype(np.float32)
    savings = generator.integers(1, 500, count)
    sets = generator.integers(0, 900, (1 << count) - 1)
    found = describe(features, savings, sets, retained_context=retained)
    assert found.shape == ((1 << count) - 1, width(COLUMNS))
    assert found.shape[1] == len(SUMMARIES) * COLUMNS + len(ABOUT)
    for mask in range(1, 1 << count):
        twin = slow_twin(features, savings.tolist(), int(sets[mask - 1]), mask, retained=retained)
        assert found[mask - 1].tolist() == pytest.approx(twin, rel=1e-12, abs=1e-12)


def test_many_states_at_once_are_described_like_each_alone() -> None:
    generator = np.random.default_rng(3)
    features = generator.normal(size=(5, 4, COLUMNS)).astype(np.float32)
    savings, sets = generator.integers(1, 500, (5, 4)), generator.integers(1, 900, (5, 15))
    together = describe(features, savings, sets)
    for state in range(5):
        np.testing.assert_array_equal(together[state], describe(features[state], savings[state], sets[state]))
