"""Ways of reading branches, counted on a tree by hand, and what a forward costs on no device."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from benchmarks.hybrid_branches import (
    CHUNK,
    Costs,
    equal_siblings,
    filled,
    one_by_one,
    siblings_in_steps,
    small_siblings,
    summary,
    trees_of,
)
from drsr.offline import samples
from drsr.offline.label.prefix_tree import build_tree
from tests.benchmarks.test_traffic import HYBRID

LISTS = {"a": [1, 2, 3, 3, 3], "b": [1, 2, 4, 4, 4], "c": [1, 2, 5], "d": [6] * (CHUNK + 7)}
TREE = build_tree({name: np.array(ids, dtype=np.int32) for name, ids in LISTS.items()})
"""Two tokens, then branches of three, three and one; beside them one that needs two forwards."""


class Plain:
    """A forward costs its tokens."""

    def alone(self, tokens: int) -> float:
        return tokens


def test_forwards_of_every_way_on_a_tree_by_hand() -> None:
    costs = cast("Costs", Plain())
    assert sorted(one_by_one(TREE, costs)) == [1, 2, 3, 3, 7, CHUNK]
    # Three leaves fit what a forward has for nothing; the root's children do not, for the shorter one has children.
    assert sorted(small_siblings(TREE, costs)) == [2, 7, 9, CHUNK]
    assert sorted(equal_siblings(TREE, costs)) == [1, 2, 6, 7, CHUNK]
    # The root's children: both for two tokens, then the longer one. Below: three for one token, then two for two.
    assert sorted(siblings_in_steps(TREE, costs)) == [3, 4, 4, 5, CHUNK]
    assert filled(TREE) == [[2, 3, 3, 1, CHUNK - 9], [16]]


def test_mixers_go_one_by_one_and_all_else_together() -> None:
    costs = Costs(0.0, HYBRID)
    assert 0 < costs.kernels_of_rest < costs.kernels
    assert costs.together([40]) == pytest.approx(costs.alone(40))
    assert costs.together([40, 40]) < 2 * costs.alone(40)
    assert costs.together([40, 40]) > costs.alone(80)
    slow = Costs(1.0, HYBRID)
    assert slow.alone(40) == costs.kernels
    assert slow.together([40, 40]) == 2 * costs.kernels - costs.kernels_of_rest


def test_the_trees_of_recorded_runs() -> None:
    trees = list(trees_of(str(samples.CORPUS), "scripted", 2))
    found = summary(trees, Costs(5e-6, HYBRID))
    assert found["trees"] == 2
    assert found["one by one"]["forwards"] == found["nodes"]
    assert found["one by one"]["time"] == 1.0
    assert found["small siblings"]["forwards"] < found["one by one"]["forwards"]
    assert found["together"]["kernels"] < found["one by one"]["kernels"]
