"""Summaries of a replay, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from drsr.offline.evaluation.replay import Replayed
from drsr.offline.evaluation.replay_summary import by_domain, summarise
from drsr.offline.metrics import Bootstrap

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
        "fell_back": False,
        "lost": (),
    }
    return Replayed(**{**values, **others})  # type: ignore[arg-type]


ROWS = [
    row("a1", "a", "code", 100, 0.5),
    row("a1", "a", "code", 300, 0.0),
    row("a2", "a", "code", 0, 0.0),
    row("b1", "b", "code", 400, 0.1, auxiliary_input_tokens=90, auxiliary_output_tokens=10),
    row("c1", "c", "web", 200, 0.01),
    row("c1", "c", "web", 600, None, violations=2, fell_back=True, lost=("task",)),
]


def test_every_task_counts_once() -> None:
    (found,) = summarise(ROWS, BOOTSTRAP)
    # Task a: runs 0.2 and 0.0, so 0.1. Task b: 0.4. Task c: 0.4.
    assert found.removal.value == pytest.approx((0.1 + 0.4 + 0.4) / 3)
    # Code: tasks a and b, (0.1 + 0.4) / 2 = 0.25. Web: 0.4.
    assert found.removal_by_domain.value == pytest.approx((0.25 + 0.4) / 2)
    # Measured decisions only: a (0.25 and 0) 0.125, b 0.1, c 0.01.
    assert found.harm.value == pytest.approx((0.125 + 0.1 + 0.01) / 3)
    assert found.unsafe.value == pytest.approx((0.25 + 1 + 0) / 3)
    assert found.unsafe_of_changed.value == pytest.approx(2 / 4)
    assert found.abstained.value == pytest.approx((0.5 + 0 + 0) / 3)
    assert found.auxiliary_tokens.value == pytest.approx(100 / 3)
    assert found.net_removal.value == pytest.approx((0.1 + 0.3 + 0.4) / 3)
    assert (found.decisions, found.measured, found.invalid, found.fell_back, found.lost_task) == (6, 5, 1, 1, 1)
    assert found.milliseconds == pytest.approx(1.0)


def test_intervals_hold_their_value_and_come_from_whole_tasks() -> None:
    (found,) = summarise(ROWS, BOOTSTRAP)
    for metric in (found.removal, found.removal_by_domain, found.harm, found.unsafe, found.unsafe_of_changed):
        assert metric.low <= metric.value <= metric.high
    assert found.removal.trajectories == 4
    assert summarise(ROWS, BOOTSTRAP) == [found]  # seeded


def test_by_domain_is_each_domain_alone() -> None:
    domains = by_domain(ROWS, BOOTSTRAP)
    assert list(domains) == ["code", "web"]
    assert domains["web"][0].removal.value == pytest.approx(0.4)
    assert domains["code"][0].removal.value == domains["code"][0].removal_by_domain.value == pytest.approx(0.25)


def test_nothing_changed_has_no_unsafe_rate_of_changed() -> None:
    (found,) = summarise([row("a1", "a", "code", 0, 0.0)], BOOTSTRAP)
    assert math.isnan(found.unsafe_of_changed.value)
    assert found.to_json()["unsafe_of_changed"]["value"] is None
    (nothing,) = summarise([row("a1", "a", "code", 10, None)], BOOTSTRAP)
    assert math.isnan(nothing.harm.value)
    assert math.isnan(nothing.unsafe_by_domain.value)
