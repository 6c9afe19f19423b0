"""Occurrences of items (words, paths or shingles, each a number) in the parts of a request.

Built once in time linear in the text (but for a sort); afterwards a question about a Block costs what the Block has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Occurrences:
    """Items in the order in which the parts say them."""

    def __init__(self, items: Numbers, parts: Numbers, kinds: int, part_count: int) -> None:
        """`items[i]`, a number below `kinds`, occurs in part `parts[i]`; parts ascend."""
        self.items = items
        self.parts = parts
        self.kinds = kinds
        self.part_count = part_count
        self.bounds = np.searchsorted(parts, np.arange(part_count + 1))
        """Offsets at which the items of each part begin, and last the offset at which all end."""
        self._distinct: dict[tuple[int, ...], tuple[Numbers, Numbers]] = {}
        self._grouped: tuple[Numbers, tuple[Numbers, Numbers, Numbers]] | None = None

    @cached_property
    def _pairs(self) -> tuple[Numbers, Numbers]:
        """Every item with every part that holds it, once; by item, then by part."""
        return distinct_pairs(self.items, self.parts, self.part_count)[:2]

    @cached_property
    def holders(self) -> Numbers:
        """For each item the number of parts that hold it."""
        return np.bincount(self._pairs[0], minlength=self.kinds)

    @cached_property
    def first(self) -> Numbers:
        """Return, for each item, the first part that holds it; `part_count` if there is none."""
        first = np.full(self.kinds, self.part_count, dtype=np.int64)
        item, part = self._pairs
        first[item[::-1]] = part[::-1]  # the last assignment to an index counts
        return first

    @cached_property
    def last(self) -> Numbers:
        """Return, for each item, the last part that holds it; -1 if there is none."""
        return self.last_among(np.ones(self.part_count, dtype=np.bool_))

    def last_among(self, wanted: Mask) -> Numbers:
        """Return the same among some parts only."""
        last = np.full(self.kinds, -1, dtype=np.int64)
        item, part = self._pairs
        inside = wanted[part]
        last[item[inside]] = part[inside]
        return last

    def holders_among(self, wanted: Mask) -> Numbers:
        """Return, for each item, how many of some parts hold it."""
        item, part = self._pairs
        return np.bincount(item[wanted[part]], minlength=self.kinds)

    def grouped(self, group: Numbers, groups: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return every pair of an item and a group of parts that holds it, once, with the number of occurrences;
        `group` is each part's group, -1 for none. The last answer is remembered: two rooms ask for the words of all
        Blocks."""
        if self._grouped is None or not np.array_equal(self._grouped[0], group):
            inside = group[self.parts] >= 0
            found = distinct_pairs(self.items[inside], group[self.parts[inside]], groups)
            self._grouped = group, found
        return self._grouped[1]

    def inside(self, part: int) -> Numbers:
        """Return the items of a part in order, with repetitions."""
        return self.items[self.bounds[part] : self.bounds[part + 1]]

    @cached_property
    def lengths(self) -> Numbers:
        """For each part how many items it has, repetitions counted."""
        return np.diff(self.bounds)

    def length(self, part: int) -> int:
        """Return how many items a part has, repetitions counted."""
        return int(self.bounds[part + 1] - self.bounds[part])

    def distinct(self, parts: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Return the items of some parts, ascending, and how many of these parts hold each. Remembered: many columns
        ask."""
        key = tuple(parts)
        if key not in self._distinct:
            each = [distinct(self.inside(part))[0] for part in parts]
            self._distinct[key] = distinct(np.concatenate([*each, np.empty(0, dtype=np.int64)]))
        return self._distinct[key]

    def mask(self, parts: Sequence[int]) -> Mask:
        """Return, for each item, whether any of these parts holds it."""
        mask = np.zeros(self.kinds, dtype=np.bool_)
        for part in parts:
            mask[self.inside(part)] = True
        return mask


def number_items(parts: Iterable[Sequence[str]]) -> tuple[Occurrences, dict[str, int]]:
    """Return the items of all parts, each with a number, in the order of first occurrence. Parts that come one by one
    are not kept: what was just read is quickest to look up."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)  # an item that is new gets the next number
    each = [np.fromiter(map(numbers.__getitem__, part), dtype=np.int64, count=len(part)) for part in parts]
    items = np.concatenate([*each, np.empty(0, dtype=np.int64)])
    where = np.repeat(np.arange(len(each), dtype=np.int64), [len(part) for part in each])
    return Occurrences(items, where, len(numbers), len(each)), dict(numbers)


def distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct numbers, ascending, and how often each occurs: by sorting, which is faster than numpy's
    hashing."""
    ordered = np.sort(numbers)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else ordered
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


def distinct_pairs(one: Numbers, other: Numbers, others: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the distinct pairs of a number with one below `others`, ascending, and how often each occurs."""
    bits = others.bit_length()
    keys, counts = distinct((one << bits) | other)
    return keys >> bits, keys & ((1 << bits) - 1), counts


def numbered_anew(numbers: Numbers) -> tuple[Numbers, int]:
    """Return the same numbers as 0, 1, ... in their order, and how many there are."""
    order = np.argsort(numbers)
    ordered = numbers[order]
    rank = np.concatenate([[0], np.cumsum(ordered[1:] != ordered[:-1])]) if len(ordered) else ordered
    anew = np.empty(len(numbers), dtype=np.int64)
    anew[order] = rank
    return anew, int(rank[-1]) + 1 if len(rank) else 0
