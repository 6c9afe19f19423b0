"""The radix tree against the set of all distinct prefixes, which says what sharing can save at best."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.prefix_tree import Node, as_one_batch, build_tree, common_prefix, path_of, total_tokens
from drsr.request.contracts import TokenIds

# Few distinct tokens, so that sequences share much, are prefixes of each other, or are equal.
sequences = st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=12)


def ids(*tokens: int) -> TokenIds:
    return np.array(tokens, dtype=np.int32)


def distinct_prefixes(lists: list[list[int]]) -> int:
    """The slow twin: how many tokens must be computed when nothing is computed twice."""
    return len({tuple(tokens[:length]) for tokens in lists for length in range(1, len(tokens) + 1)})


@given(sequences)
def test_holds_each_distinct_prefix_once(lists: list[list[int]]) -> None:
    tree = build_tree({number: ids(*tokens) for number, tokens in enumerate(lists)})
    assert total_tokens(tree) == distinct_prefixes(lists)
    ends = {key: node for node in tree.walk() for key in node.keys}
    assert sorted(ends) == list(range(len(lists)))  # each key once
    for number, tokens in enumerate(lists):
        path = path_of(tree, ids(*tokens))
        assert [int(token) for node in path for token in node.tokens] == tokens
        assert (path[-1] if path else tree) is ends[number]


@given(sequences)
def test_nodes_are_well_formed(lists: list[list[int]]) -> None:
    tree = build_tree({number: ids(*tokens) for number, tokens in enumerate(lists)})
    visited = list(tree.walk())
    assert len(visited) == len({id(node) for node in visited})
    for node in visited:
        firsts = [int(child.tokens[0]) for child in node.children]
        assert len(firsts) == len(set(firsts))
        assert all(child.start == node.stop for child in node.children)
        if node is not tree:
            assert len(node.tokens) > 0
            # A node that neither ends a sequence nor branches would only cut a run of tokens into smaller forwards.
            assert node.keys or len(node.children) > 1


def test_depth_first_with_parents_before_children() -> None:
    tree = build_tree({"a": ids(1, 2, 3), "b": ids(1, 2, 4, 5), "c": ids(1, 2), "d": ids(9), "e": ids(1, 2, 4, 6)})
    assert [node.tokens.tolist() for node in tree.walk()] == [[], [1, 2], [3], [4], [5], [6], [9]]
    assert [node.keys for node in tree.walk()] == [[], ["c"], ["a"], [], ["b"], ["e"], ["d"]]
    assert [(node.start, node.stop) for node in tree.walk()][3] == (2, 3)


def test_equal_sequences_share_everything() -> None:
    tree = build_tree({"a": ids(1, 2), "b": ids(1, 2)})
    assert total_tokens(tree) == 2
    assert [node.keys for node in tree.walk()] == [[], ["a", "b"]]


@given(st.lists(st.integers(0, 1), max_size=8), st.lists(st.integers(0, 1), max_size=8))
def test_common_prefix(one: list[int], other: list[int]) -> None:
    expected = 0
    while expected < min(len(one), len(other)) and one[expected] == other[expected]:
        expected += 1
    assert common_prefix(ids(*one), ids(*other)) == expected


def test_a_path_that_is_not_there() -> None:
    tree = build_tree({"a": ids(1, 2, 3)})
    with pytest.raises(AssertionError, match="does not hold"):
        path_of(tree, ids(1, 2, 4))
    with pytest.raises(AssertionError, match="does not hold"):
        path_of(tree, ids(1, 2))


def family(*members: tuple[int, bool]) -> list[Node[str]]:
    """Nodes of these lengths, some with a child."""
    end = Node[str](0, ids(1))
    return [Node[str](0, ids(*range(length)), children=[end] if goes_on else []) for length, goes_on in members]


@pytest.mark.parametrize(
    ("members", "for_nothing", "most", "lengths"),
    [
        ([(5, False), (3, False)], 10, 100, [3, 5]),
        ([(5, False)], 10, 100, []),
        ([(5, True), (3, True)], 10, 100, []),  # the shorter one's state would be spoilt
        ([(5, True), (3, False)], 10, 100, [3, 5]),
        ([(5, False), (3, True)], 10, 100, []),
        ([(9, True), (5, True), (5, False)], 10, 100, [5, 5]),  # as little as possible is filled up
        ([(9, True), (3, False), (5, False)], 10, 100, [3, 5, 9]),
        ([(5, False), (3, False)], 10, 9, []),  # more than a forward may hold
        ([(60, False), (3, False)], 10, 1000, []),  # 120 tokens in place of 70
        ([(60, False), (3, False)], 60, 1000, [3, 60]),
        ([(60, False), (60, False)], 0, 1000, [60, 60]),
    ],
)
def test_rows_of_a_batch(members: list[tuple[int, bool]], for_nothing: int, most: int, lengths: list[int]) -> None:
    found = as_one_batch(family(*members), for_nothing, most)
    assert [len(node.tokens) for node in found] == lengths
    assert not any(node.children for node in found[:-1])


def test_time_grows_linearly() -> None:
    """Sixteen rewrites of a long context: eight times the tokens, not much more than eight times the time."""

    def seconds(length: int) -> float:
        base = np.arange(length, dtype=np.int32)
        rewrites = {number: np.delete(base, slice(number * 7, number * 7 + 5)) for number in range(1, 17)}
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            build_tree(rewrites)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(400_000) < 8 * 3 * max(seconds(50_000), 1e-4)
