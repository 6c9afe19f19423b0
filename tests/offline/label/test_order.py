"""The order of labelling: domains evenly, in each a first run of every task before a second, the shortest first."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.label.order import Waiting, evenly

DOMAINS, TASKS = st.sampled_from(["code", "web"]), st.sampled_from(["a", "b", "c"])
RUNS = st.lists(st.tuples(DOMAINS, TASKS, st.integers(1, 10_000)), max_size=40)
MEASURED = st.lists(st.tuples(DOMAINS, TASKS), max_size=9)


@given(RUNS, MEASURED)
def test_every_trajectory_comes_once_and_of_a_domain_never_a_task_that_has_more_runs(
    found: list[tuple[str, str, int]], measured: list[tuple[str, str]]
) -> None:
    # A task belongs to one domain.
    runs = [Waiting(domain, f"{domain}/{task}", length, number) for number, (domain, task, length) in enumerate(found)]
    order = evenly(runs, [(domain, f"{domain}/{task}") for domain, task in measured])
    assert sorted(order) == list(range(len(found)))
    for domain in ("code", "web"):
        seen = Counter(f"{of}/{task}" for of, task in measured)
        rounds = []
        for run in (runs[number] for number in order if runs[number].domain == domain):
            rounds.append(seen[run.task])
            seen[run.task] += 1
        assert rounds == sorted(rounds)
    for task in {run.task for run in runs}:
        lengths = [runs[number].length for number in order if runs[number].task == task]
        assert lengths == sorted(lengths)


def test_a_long_run_of_a_new_task_comes_before_a_short_one_of_a_known_task() -> None:
    runs = [Waiting("web", "known", 10, 0), Waiting("web", "new", 900, 1), Waiting("web", "other", 800, 2)]
    assert evenly(runs, [("web", "known")]) == [2, 1, 0]


def test_a_domain_that_has_less_is_measured_first_until_domains_are_even() -> None:
    runs = [
        *(Waiting("data", f"d{n}", 10, n) for n in range(3)),
        *(Waiting("code", f"c{n}", 900, 10 + n) for n in range(3)),
    ]
    assert evenly(runs, [("data", "before"), ("data", "before too")]) == [10, 11, 0, 12, 1, 2]
