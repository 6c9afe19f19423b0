"""The order of labelling: a first run of every task before a second, and the shortest first."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.order import new_tasks_first

RUNS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 10_000)), max_size=40)
MEASURED = st.dictionaries(st.sampled_from(["a", "b", "c", "gone"]), st.integers(0, 5))


@given(RUNS, MEASURED)
def test_every_trajectory_once_and_never_a_run_of_the_task_that_has_more(
    found: list[tuple[str, int]], measured: dict[str, int]
) -> None:
    order = new_tasks_first([(task, length, number) for number, (task, length) in enumerate(found)], measured)
    assert sorted(order) == list(range(len(found)))
    seen = Counter(measured)
    rounds = []
    for number in order:
        rounds.append(seen[found[number][0]])
        seen[found[number][0]] += 1
    assert rounds == sorted(rounds)
    for task in {task for task, _ in found}:
        lengths = [found[number][1] for number in order if found[number][0] == task]
        assert lengths == sorted(lengths)


def test_a_long_run_of_a_new_task_comes_before_a_short_one_of_a_known_task() -> None:
    assert new_tasks_first([("known", 10, 0), ("new", 900, 1), ("other", 800, 2)], {"known": 1}) == [2, 1, 0]
