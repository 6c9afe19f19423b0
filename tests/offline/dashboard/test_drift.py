"""The population stability index, against a slow twin and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.offline.dashboard.drift import BINS, counted, edges, stability_index


def slow_index(training: list[float], other: list[float], limits: list[float]) -> float:
    """Bin by bin and value by value."""
    cuts = sorted({limit for limit in limits if limit < math.inf})

    def share(values: list[float]) -> list[float]:
        return [
            float(sum(sum(value > cut for cut in cuts) == number for value in values))
            for number in range(len(cuts) + 1)
        ]

    pairs = [(a, b) for a, b in zip(share(training), share(other), strict=True) if a + b]
    expected, seen = ([max(pair[side], 0.5) for pair in pairs] for side in (0, 1))
    p, q = ([count / sum(side) for count in side] for side in (expected, seen))
    return sum((b - a) * math.log(b / a) for a, b in zip(p, q, strict=True))


numbers = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0, 10.0, 11.0, 12.0, 40.0]), min_size=1)


@settings(deadline=None, max_examples=60)
@given(numbers, numbers)
def test_it_is_what_its_definition_says(training: list[float], other: list[float]) -> None:
    first, second = (np.array(values, dtype=np.float32)[:, None] for values in (training, other))
    limits = edges(first)
    assert limits.shape == (BINS - 1, 1)
    found = stability_index(counted(first, limits), counted(second, limits))
    assert found[0] == pytest.approx(slow_index(training, other, limits[:, 0].tolist()), abs=1e-9)
    assert found[0] >= 0.0
    assert stability_index(counted(first, limits), counted(first, limits))[0] == 0.0


def test_a_shift_is_seen_and_chance_is_not() -> None:
    random = np.random.default_rng(7)
    training, same = (random.normal(size=(20_000, 3)).astype(np.float32) for _ in range(2))
    limits = edges(training)
    counts = counted(training, limits)
    assert counts.sum(axis=0).tolist() == [20_000.0] * 3
    assert np.allclose(counts, 2_000, atol=2)
    assert (stability_index(counts, counted(same, limits)) < 0.005).all()
    same[:, 1] += 1.0
    index = stability_index(counts, counted(same, limits))
    assert index[1] > 0.5
    assert (index[[0, 2]] < 0.005).all()


def test_a_rare_value_of_a_column_that_mostly_has_another_is_seen() -> None:
    training = np.ones((1_000, 1), dtype=np.float32)
    training[:50, 0] = np.linspace(0.0, 0.9, 50)
    other = training.copy()
    other[:500, 0] = 0.3
    limits = edges(training)
    assert stability_index(counted(training, limits), counted(other, limits))[0] > 0.25


def test_a_constant_column_has_no_drift_until_it_changes() -> None:
    training = np.full((100, 1), 4.0, dtype=np.float32)
    limits = edges(training)
    assert stability_index(counted(training, limits), counted(training[:9], limits))[0] == 0.0
