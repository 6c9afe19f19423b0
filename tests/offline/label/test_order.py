"""The order of labelling: every kind of work gets its share of the time, and of each the shortest come first."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.order import in_turn

KINDS = st.tuples(st.integers(0, 2), st.sampled_from(["code", "security"]))


@given(st.lists(st.tuples(KINDS, st.integers(1, 10_000)), max_size=40))
def test_every_trajectory_once_and_the_shortest_of_a_kind_first(found: list[tuple[tuple[int, str], int]]) -> None:
    trajectories = [(kind, length, number) for number, (kind, length) in enumerate(found)]
    order = in_turn(trajectories)
    assert sorted(order) == list(range(len(found)))
    for kind in {kind for kind, _ in found}:
        lengths = [found[number][1] for number in order if found[number][0] == kind]
        assert lengths == sorted(lengths)


def test_long_kinds_do_not_wait_for_short_ones() -> None:
    short = [((0, "data"), 100, number) for number in range(30)]
    long = [((1, "code"), 1_000, number) for number in range(100, 110)]
    order = in_turn([*short, *long])
    shares = list(accumulate(number >= 100 for number in order))
    assert shares[19] == 5  # of the first twenty a quarter, as of all of them
