"""Pairs against the double loop that defines them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.train.ranking_pairs import group_numbers, pairs_within, ranking_pairs


@given(group=st.lists(st.integers(0, 5), max_size=40))
def test_all_pairs_of_a_group_once(group: list[int]) -> None:
    found = pairs_within(np.array(group, dtype=np.int64))
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    expected = {(i, j) for j in range(len(group)) for i in range(j) if group[i] == group[j]}
    assert len(pairs) == len(expected)
    assert set(pairs) == expected


def test_groups_agree_in_all_keys() -> None:
    groups = group_numbers(np.array([0, 0, 1, 1, 0]), np.array([1, 2, 1, 1, 1]))
    assert groups[0] == groups[4]
    assert groups[2] == groups[3]
    assert len(set(groups.tolist())) == 3


def test_pairs_stay_in_trajectory_and_cardinality_and_are_weighted_by_their_gap() -> None:
    trajectory = np.array([0, 0, 0, 0, 1, 1])
    cardinality = np.array([1, 1, 1, 2, 1, 1])
    harm = np.array([0.0, 0.01, 0.01 + 5e-6, 0.9, 0.5, 0.1])
    found = ranking_pairs(trajectory, cardinality, harm, minimum_gap=1e-5, full_gap=0.02, base_weight=0.1)
    rows = {(int(a), int(b)): (float(s), float(w)) for a, b, s, w in zip(*found, strict=True)}
    assert set(rows) == {(0, 1), (0, 2), (4, 5)}  # (1, 2) is closer than the minimum; row 3 and row 4 have no partner
    assert rows[0, 1] == pytest.approx((-1.0, 0.1 + 0.9 * 0.5))
    assert rows[4, 5] == pytest.approx((1.0, 1.0))
