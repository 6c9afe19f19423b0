"""Summaries of a replay, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from drsr.offline.bench.replay import summary as replay_summary
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.replay.summary import by_domain, compare
from drsr.offline.train.metrics import Bootstrap, draw_trajectories

BOOTSTRAP = Bootstrap(200)


def row(run: str, task: str, domain: str, removed: int, harm: float | None, **others: object) -> Replayed:
    values = {
        "run": run,
        "task": task,
        "domain": domain,
        "state_key": f"{run}/{removed}/{harm}",
        "method": "m",
        "title": "Method",
        "trained": "no",
        "request_tokens": 1000,
        "removed_tokens": removed,
        "changed": removed != 0,
        "intact_nll": 1.0,
        "rewritten_nll": None if harm is None else 1.0 + harm,
        "why_not_measured": "" if harm is not None else "context_too_long: no",
        "requests": 1,
        "auxiliary_input_tokens": 0,
        "auxiliary_output_tokens": 0,
        "seconds": 0.001,
        "violations": 0,
        "why_fell_back": "",
        "lost": (),
        "claims_broken": (),
        "version": "",
    }
    return Replayed(**{**values, **others})  # type: ignore[arg-type]


TASK_LOST = {"lost": ("task",), "claims_broken": ("task",)}
ROWS = [
    row("a1", "a", "code", 100, 0.5),
    row("a1", "a", "code", 300, 0.0),
    row("a2", "a", "code", 0, 0.0),
    row("b1", "b", "code", 400, 0.1, auxiliary_input_tokens=90, auxiliary_output_tokens=10),
    row("c1", "c", "web", 200, 0.01),
    row("c1", "c", "web", 600, None, violations=2, why_fell_back="result_without_call", **TASK_LOST),
]


def test_every_task_counts_once() -> None:
    """What was not measured counts for costs only: the sixth decision, which would have removed most."""
    comparison = compare(ROWS, BOOTSTRAP)
    (found,) = comparison.methods
    # Task a: runs 0.2 and 0.0, so 0.1. Task b: 0.4. Task c: 0.2.
    assert found.removal.value == pytest.approx((0.1 + 0.4 + 0.2) / 3)
    assert found.removed_tokens.value == pytest.approx((100 + 400 + 200) / 3)
    # Code: tasks a and b, (0.1 + 0.4) / 2 = 0.25. Web: 0.2.
    assert found.removal_by_domain.value == pytest.approx((0.25 + 0.2) / 2)
    assert found.harm.value == pytest.approx((0.125 + 0.1 + 0.01) / 3)
    assert found.unsafe.value == pytest.approx((0.25 + 1 + 0) / 3)
    assert found.unsafe_by_domain.value == pytest.approx(((0.25 + 1) / 2 + 0) / 2)
    assert found.unsafe_of_changed.value == pytest.approx(2 / 4)
    assert found.abstained.value == pytest.approx((0.5 + 0 + 0) / 3)
    assert found.removal_of_all.value == pytest.approx((0.1 + 0.4 + 0.4) / 3)
    assert found.auxiliary_tokens.value == pytest.approx(100 / 3)
    assert found.net_removal.value == pytest.approx((0.1 + 0.3 + 0.4) / 3)
    assert (comparison.decisions, comparison.measured, comparison.runs, comparison.tasks) == (6, 5, 4, 3)
    assert comparison.not_measured == {"the rewrite by Method, context too long": 1}
    assert (found.invalid, found.fell_back, found.why_fell_back) == (1, 1, {"result_without_call": 1})
    assert (found.lost_task, found.claims_broken) == (0, 0)  # what fell back went on with its task
    assert found.milliseconds == pytest.approx(1.0)


def decision(method: str, number: int, removed: int, harm: float | None, **others: object) -> Replayed:
    run = f"r{number}"
    return row(run, run, "code", removed, harm, method=method, title=method.upper(), state_key=run, **others)


def test_methods_are_compared_on_the_decisions_that_all_have() -> None:
    """One that was replayed on more is not shown on more."""
    some = [decision("a", number, 100, 0.0) for number in range(2)]
    more = [decision("b", number, 100 if number < 2 else 900, 0.5 if number > 1 else 0.0) for number in range(5)]
    both = compare([*some, *more], BOOTSTRAP)
    alone = compare(more[:2], BOOTSTRAP)
    assert both.decisions == both.measured == 2
    assert both.rows_left_out == {"B": 3}
    assert both.methods[1] == alone.methods[0]
    assert "rows of B: 3" in both.population
    assert compare([*some, *more[3:]], BOOTSTRAP).methods == []


def test_removal_stands_beside_harm_of_the_same_decisions() -> None:
    """Long requests are where some methods act and what the language model cannot read: removal there has no harm."""
    long = {"intact_nll": None, "rewritten_nll": None, "why_not_measured": "context_too_long: 9,000 tokens"}
    rows = [
        decision("a", 0, 0, 0.0),
        decision("a", 1, 900, None, **long),
        decision("b", 0, 100, 0.5),
        decision("b", 1, 900, None, **long),
    ]
    found = compare(rows, BOOTSTRAP)
    waits, acts = found.methods
    assert (waits.removal.value, waits.unsafe.value, waits.removal_of_all.value) == (0.0, 0.0, 0.45)
    assert (acts.removal.value, acts.unsafe.value, acts.removal_of_all.value) == (0.1, 1.0, 0.5)
    assert found.not_measured == {"the request, context too long": 1}
    assert "Measured for every method: 1 of them" in found.population


def test_a_rewrite_that_cannot_be_read_leaves_the_decision_out_for_all() -> None:
    rows = [decision(method, number, 100, 0.0) for method in "ab" for number in range(3)]
    rows[4] = decision("b", 1, -50, None)
    found = compare(rows, BOOTSTRAP)
    assert (found.decisions, found.measured) == (3, 2)
    assert found.methods[0].removal.support == found.methods[1].removal.support == 2
    assert found.not_measured == {"the rewrite by B, context too long": 1}


def test_intervals_hold_their_value() -> None:
    (found,) = compare(ROWS, BOOTSTRAP).methods
    for metric in (found.removal, found.removal_by_domain, found.harm, found.unsafe, found.unsafe_of_changed):
        assert metric.low <= metric.value <= metric.high
    assert found.removal.trajectories == 4
    assert compare(ROWS, BOOTSTRAP).methods == [found]  # seeded


def test_intervals_come_from_whole_tasks() -> None:
    """Two tasks with one and the same mean but runs that differ: whoever draws runs gets an interval."""
    rows = [row(f"{task}{trial}", task, "code", 400 * trial, float(trial)) for task in "ab" for trial in (0, 1)]
    (found,) = compare(rows, BOOTSTRAP).methods
    for metric, value in ((found.removal, 0.2), (found.harm, 0.5), (found.removal_by_domain, 0.2)):
        assert metric[3:6] == pytest.approx((value, value, value))


def test_tasks_are_drawn_once_for_all_methods_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counted(*arguments: Any) -> Any:
        drawn.append(arguments)
        return draw_trajectories(*arguments)

    monkeypatch.setattr(replay_summary, "draw_trajectories", counted)
    compare([decision(method, number, 100, 0.0) for method in "abcde" for number in range(3)], BOOTSTRAP)
    assert len(drawn) == 2  # measured ones, and all


def test_by_domain_is_each_domain_alone() -> None:
    domains = by_domain(ROWS, BOOTSTRAP)
    assert list(domains) == ["code", "web"]
    assert (domains["web"].decisions, domains["web"].measured) == (2, 1)
    (code,), (web,) = (found.methods for found in domains.values())
    assert (web.removal.value, web.removal_of_all.value) == pytest.approx((0.2, 0.4))
    assert code.removal.value == code.removal_by_domain.value == pytest.approx(0.25)


def test_a_domain_that_one_method_lacks_is_not_shown() -> None:
    rows = [decision("a", 0, 100, 0.0), decision("b", 0, 100, 0.0), decision("a", 1, 100, 0.0)._replace(domain="web")]
    assert list(by_domain(rows, BOOTSTRAP)) == ["code"]


def test_nothing_changed_has_no_unsafe_rate_of_changed() -> None:
    (found,) = compare([row("a1", "a", "code", 0, 0.0)], BOOTSTRAP).methods
    assert math.isnan(found.unsafe_of_changed.value)
    assert found.to_json()["unsafe_of_changed"]["value"] is None
    (nothing,) = compare([row("a1", "a", "code", 10, None)], BOOTSTRAP).methods
    assert math.isnan(nothing.harm.value)
    assert math.isnan(nothing.unsafe_by_domain.value)
    assert nothing.removal_of_all.value == 0.01
    assert nothing.to_json()["harm"]["value"] is None
