"""Which results stand in one table: of every method the same tasks with the same seeds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.offline.bench.harness.episode import Episode
from drsr.offline.bench.harness.shared_runs import Shared, shared_runs
from tests.offline.bench.harness.settings import episode


def of(method: str, tasks: str, seed: int = 0) -> list[Episode]:
    return [episode(task, "code", method, seed=seed) for task in tasks]


def kept(found: Shared) -> dict[str, str]:
    methods = dict.fromkeys(one.method for one in found.episodes)
    return {method: "".join(one.task for one in found.episodes if one.method == method) for method in methods}


def test_a_run_that_was_stopped_leaves_out_the_task_it_was_at() -> None:
    found = shared_runs([*of("baseline", "abc"), *of("x", "abc"), *of("y", "ab")])
    assert kept(found) == {"baseline": "ab", "x": "ab", "y": "ab"}
    assert (found.left_out, found.runs_left_out) == ({}, 1)


def test_a_method_with_few_tasks_does_not_take_them_from_the_others() -> None:
    found = shared_runs([*of("baseline", "abcdefgh"), *of("x", "abcdefgh"), *of("few", "a")])
    assert kept(found) == {"baseline": "abcdefgh", "x": "abcdefgh"}
    assert list(found.left_out) == ["Few"]
    assert "1 of the 8" in found.left_out["Few"]
    assert found.runs_left_out == 0


def test_another_seed_is_another_run() -> None:
    found = shared_runs([*of("baseline", "ab"), *of("baseline", "ab", seed=1), *of("x", "ab", seed=1)])
    assert {(one.method, one.seed) for one in found.episodes} == {("baseline", 1), ("x", 1)}
    assert found.runs_left_out == 2
    assert list(shared_runs([*of("baseline", "ab"), *of("x", "ab", seed=1)]).left_out) == ["X"]


def test_nothing_of_nothing() -> None:
    assert shared_runs([]) == ([], {}, 0)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from("wxyz"), st.sets(st.sampled_from("abcdef"), min_size=1)), st.data())
def test_never_a_hole_and_never_without_the_baseline(methods: dict[str, set[str]], data: st.DataObject) -> None:
    tasks = data.draw(st.sets(st.sampled_from("abcdef"), min_size=1))
    episodes = [one for method, mine in methods.items() for one in of(method, "".join(sorted(mine)))]
    found = shared_runs([*episodes, *of("baseline", "".join(sorted(tasks)))])
    runs = kept(found)
    assert "baseline" in runs
    assert len(set(runs.values())) == 1
    assert {one.upper() for one in methods} == {one.upper() for one in runs if one != "baseline"} | set(found.left_out)
    assert len(found.episodes) >= len(tasks)
