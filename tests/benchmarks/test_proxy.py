"""What the proxy's benchmark says of its numbers."""

from __future__ import annotations

from collections import Counter

from benchmarks.proxy import Measured, request, shown
from drsr.request.request import read_request


def test_runs_grow_by_a_step_and_differ() -> None:
    first, second = request("1-0", 3)["messages"], request("1-0", 4)["messages"]
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2
    assert request("2-0", 3)["messages"][1:] != first[1:]
    assert read_request(request("1-0", 3)).protocol == "openai"


def test_late_and_busy_requests_are_not_decided() -> None:
    reasons = Counter({"pruned": 90, "too_few_candidates": 4, "busy": 5, "deadline_exceeded": 1})
    measured = Measured(reasons, [10.0] * 19 + [200.0], 100, 105, 1)
    assert measured.decided == 0.94
    assert measured.p95 == 10.0
    assert not measured.is_met
    better = measured._replace(reasons=Counter({"pruned": 100}))
    assert better.is_met
    assert not better._replace(last=120).is_met
    assert "decided 94.0%" in shown(measured, 20)
