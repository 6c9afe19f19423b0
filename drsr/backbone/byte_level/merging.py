"""The tokens of one word: bytes, joined pair by pair in the order in which the vocabulary learned its merges."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from drsr.errors import AlignmentError

_MOST_WORDS = 1 << 16
_LONGEST_WORD = 48
"""Words beyond are rarely seen twice, and would take most of the memory."""
LONGEST_MERGED = 1 << 15
"""Characters. Merging takes several times as long per character as reading words that repeat, and no text has such a
word: only a ruler of one character, or a file that is not text."""
_PLACE_BITS = 40
_PLACES = (1 << _PLACE_BITS) - 1
"""The queue holds one number per pair, its rank before its place: far quicker than tuples."""


class Merges(NamedTuple):
    """Pairs of tokens and what they merge into. In a word, the pair with the lowest rank is merged next."""

    ranks: dict[tuple[int, int], int]
    tokens: list[int]
    """By rank. Each token comes from one pair: an outdated entry of the queue could be taken for a new one else."""


class RememberedWords(dict[str, bytes]):
    """The token ids of words, as bytes of int32. Texts repeat their words, so most are merged once."""

    def __init__(self, token_of_byte: Sequence[int], merges: Merges) -> None:
        """`token_of_byte` has a negative number for a byte that is left out."""
        super().__init__()
        self._token_of_byte = token_of_byte
        self._merges = merges

    def __missing__(self, word: str) -> bytes:
        if len(word) > LONGEST_MERGED:
            raise AlignmentError(f"a word of {len(word):,} characters; drsr merges words of at most {LONGEST_MERGED:,}")
        tokens = [token for byte in word.encode() if (token := self._token_of_byte[byte]) >= 0]
        ids = array("i", merged(tokens, self._merges)).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids


def merged(tokens: list[int], merges: Merges) -> list[int]:
    """Join pairs until no merge applies: lowest rank first, then leftmost. Time grows with n log n."""
    rank_of = merges.ranks.get
    end = len(tokens)
    tokens, following, before = list(tokens), list(range(1, end + 1)), list(range(-1, end - 1))
    ranks = enumerate(map(rank_of, pairwise(tokens)))
    queue = [rank << _PLACE_BITS | at for at, rank in ranks if rank is not None]
    heapq.heapify(queue)
    while queue:
        first = heapq.heappop(queue)
        rank, at = first >> _PLACE_BITS, first & _PLACES
        right = following[at]
        if right == end or rank_of((tokens[at], tokens[right])) != rank:
            continue
        tokens[at], tokens[right] = merges.tokens[rank], -1  # no pair with -1 is ever merged
        following[at] = after = following[right]
        if after < end:
            before[after] = at
        for start, stop in ((before[at], at), (at, after)):
            if start >= 0 and stop < end and (found := rank_of((tokens[start], tokens[stop]))) is not None:
                heapq.heappush(queue, found << _PLACE_BITS | start)
    return [token for token in tokens if token >= 0]
