"""Medians of replicates against the median of a list in which every value stands as often as it was drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.bench.analyses.grouped_means import grouped_median
from drsr.offline.train.metrics import Bootstrap, draw_trajectories, interval

QUICK = Bootstrap(replicates=40)


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.25]), st.integers(0, 4)), min_size=1, max_size=12))
def test_equals_the_median_of_a_list_with_repeats(drawn: list[tuple[float, int]]) -> None:
    values, group = np.array([value for value, _ in drawn]), np.array([number for _, number in drawn])
    draws = draw_trajectories(np.arange(5), QUICK)
    medians = []
    for replicate in draws:
        repeated = [value for value, number in drawn for _ in range(int(replicate[number]))]
        medians.append(np.median(repeated) if repeated else math.nan)
    found = grouped_median(values, group, draws, QUICK)
    assert found.value == np.median(values)
    assert (found.low, found.high) == pytest.approx(interval(np.array(medians), QUICK), nan_ok=True)
    assert (found.support, found.trajectories) == (len(drawn), len(set(group.tolist())))


def test_nothing_has_no_median() -> None:
    found = grouped_median(np.empty(0), np.empty(0, dtype=np.int64), draw_trajectories(np.arange(2), QUICK), QUICK)
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    assert found.support == 0
