"""Words become the tokens that the plainest algorithm gives, however long they are and whatever is remembered."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.byte_level import merging
from drsr.backbone.byte_level.merging import LONGEST_MERGED, Merges, RememberedWords, merged
from drsr.errors import AlignmentError

LETTERS = 4


@st.composite
def merge_tables(draw: st.DrawFn) -> Merges:
    """Merges of earlier tokens, each pair and each product once."""
    ranks: dict[tuple[int, int], int] = {}
    for rank in range(draw(st.integers(0, 12))):
        known = st.integers(0, LETTERS + rank - 1)
        pair = draw(st.tuples(known, known))
        ranks.setdefault(pair, len(ranks))
    shuffled = draw(st.permutations(range(len(ranks))))  # the rank of a pair says nothing about its parts
    return Merges(
        dict(zip(ranks, shuffled, strict=True)), [LETTERS + shuffled.index(rank) for rank in range(len(ranks))]
    )


def plainly_merged(tokens: list[int], merges: Merges) -> list[int]:
    """Look at every pair, join the one of lowest rank that is leftmost, and begin again."""
    while True:
        found = [(merges.ranks[pair], at) for at, pair in enumerate(pairwise(tokens)) if pair in merges.ranks]
        if not found:
            return tokens
        rank, at = min(found)
        tokens = [*tokens[:at], merges.tokens[rank], *tokens[at + 2 :]]


@given(merge_tables(), st.lists(st.integers(0, LETTERS - 1), max_size=40))
def test_pairs_are_joined_as_the_plainest_algorithm_joins_them(merges: Merges, tokens: list[int]) -> None:
    before = list(tokens)
    assert merged(tokens, merges) == plainly_merged(tokens, merges)
    assert tokens == before


def doubling(levels: int) -> Merges:
    """Merges by which a run of one letter becomes ever longer tokens."""
    return Merges({(level, level): level for level in range(levels)}, [level + 1 for level in range(levels)])


def test_a_run_of_one_letter_is_joined_from_the_left() -> None:
    assert merged([0] * 11, doubling(3)) == [3, 1, 0]


def test_a_long_word_takes_little_more_than_linear_work() -> None:
    class Counted(dict[tuple[int, int], int]):
        asked = 0

        def get(self, *pair: Any) -> Any:
            self.asked += 1
            return super().get(*pair)

    def asked(length: int) -> int:
        merges = doubling(20)
        ranks = Counted(merges.ranks)
        merged([0] * length, merges._replace(ranks=ranks))
        return ranks.asked

    assert asked(32_000) < 16 * asked(2_000) * 1.1  # sixteen times the length; quadratic would be 256 times


def test_a_word_beyond_the_longest_is_refused_and_not_merged() -> None:
    words = RememberedWords(range(256), Merges({(97, 98): 0}, [300]))
    assert len(words["a" * LONGEST_MERGED]) == 4 * LONGEST_MERGED
    with pytest.raises(AlignmentError, match="a word of 32,769 characters"):
        words["a" * (LONGEST_MERGED + 1)]


def test_what_is_remembered_stays_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    merges = Merges({(97, 98): 0}, [300])
    every = [f"{'ab' * (number % 5)}{chr(98 + number % 11)}" for number in range(100)]
    expected = [RememberedWords(range(256), merges)[word] for word in every]
    monkeypatch.setattr(merging, "_MOST_WORDS", 7)
    monkeypatch.setattr(merging, "_LONGEST_WORD", 5)
    words = RememberedWords(range(256), merges)
    for word, ids in zip(every, expected, strict=True):
        assert words[word] == ids
        assert len(words) <= 7
        assert all(len(kept) <= 5 for kept in words)


def test_threads_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MOST_WORDS", 5)
    words = RememberedWords(range(256), Merges({(97, 98): 0}, [300]))
    every = [chr(97 + number % 9) * (number % 7) + "ab" for number in range(2_000)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: [words[word] for word in every], range(4)))
    finally:
        sys.setswitchinterval(before)
    alone = RememberedWords(range(256), Merges({(97, 98): 0}, [300]))
    assert found == [[alone[word] for word in every]] * 4
