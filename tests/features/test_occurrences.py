"""Which parts hold which items: the sorted index against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drsr.features.light.index import shingled
from drsr.features.occurrences import distinct, number_items, numbered_anew

requests = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=6)


@given(parts=requests, data=st.data())
def test_every_question_about_items(parts: list[list[str]], data: st.DataObject) -> None:
    found, numbers = number_items(parts)
    some = data.draw(st.lists(st.booleans(), min_size=len(parts), max_size=len(parts)))
    wanted = np.array(some)
    group = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=len(parts), max_size=len(parts))))
    assert list(numbers) == list(dict.fromkeys(item for part in parts for item in part))
    for item, number in numbers.items():
        holding = [place for place, part in enumerate(parts) if item in part]
        chosen = [place for place in holding if some[place]]
        assert found.holders[number] == len(holding)
        assert (found.first[number], found.last[number]) == (holding[0], holding[-1])
        assert found.last_among(wanted)[number] == max(chosen, default=-1)
        assert found.holders_among(wanted)[number] == len(chosen)
        assert found.mask([0, len(parts) - 1])[number] == (item in parts[0] or item in parts[-1])
    pairs = {(int(item), int(of)) for item, of, _ in zip(*found.grouped(group, 3), strict=True)}
    assert pairs == {(numbers[x], int(group[n])) for n, part in enumerate(parts) for x in part if group[n] >= 0}
    items, counts = found.distinct(range(len(parts)))
    assert {int(i): int(c) for i, c in zip(items, counts, strict=True)} == {
        number: int(found.holders[number]) for number in numbers.values()
    }
    for place, part in enumerate(parts):
        assert found.inside(place).tolist() == [numbers[item] for item in part]
        assert found.length(place) == len(part)


@given(parts=requests)
def test_shingles_stay_inside_their_part(parts: list[list[str]]) -> None:
    words, _ = number_items(parts)
    found = shingled(words)
    plain = [list(zip(part, part[1:], part[2:], strict=False)) for part in parts]
    assert [found.length(place) for place in range(len(parts))] == [len(part) for part in plain]
    assert found.kinds == len({shingle for part in plain for shingle in part})
    by_number: dict[int, tuple[str, ...]] = {}
    for place, part in enumerate(plain):
        for number, shingle in zip(found.inside(place).tolist(), part, strict=True):
            assert by_number.setdefault(number, shingle) == shingle


@given(numbers=st.lists(st.integers(-5, 2**62), max_size=20))
def test_distinct_numbers(numbers: list[int]) -> None:
    array = np.array(numbers, dtype=np.int64)
    found, counts = distinct(array)
    assert found.tolist() == sorted(set(numbers))
    assert counts.tolist() == [numbers.count(number) for number in sorted(set(numbers))]
    anew, kinds = numbered_anew(array)
    assert kinds == len(set(numbers))
    assert [sorted(set(numbers))[place] for place in anew] == numbers
