"""The advice of a model card, by its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.publish.deployment import advise

GOOD: dict[str, Any] = {"removal": 0.07, "unsafe_rate": 0.02, "limit": 0.1, "pruned": 400, "tasks": 200}


@pytest.mark.parametrize(
    ("other", "verdict", "why"),
    [
        ({}, "deploy it", "removes 7.0% of a request on average; of what it pruned 2.0% was unsafe (between 0.8% and"),
        ({"removal": 0.0}, "do not deploy it", "removes nothing"),
        ({"pruned": 0, "unsafe_rate": None}, "do not deploy it", "removes nothing"),
        ({"unsafe_rate": 0.3}, "do not deploy it", "That is above the limit."),
        ({"unsafe_rate": 0.08}, "try it in shadow mode first", "may lie above the limit"),
        ({"tasks": 29}, "try it in shadow mode first", "on 29 tasks"),
        ({"tasks": 40, "unsafe_rate": 0.05}, "try it in shadow mode first", "limit 10.0%"),
        ({"unsafe_rate": 0.08, "bound": 0.099}, "deploy it", "and 9.9%"),
        ({"tasks": 0}, "try it in shadow mode first", "between 0.0% and 100.0%"),
    ],
)
def test_the_advice_follows_from_removal_interval_and_tasks(other: dict[str, Any], verdict: str, why: str) -> None:
    advice = advise(**{**GOOD, **other})
    assert advice.verdict == verdict
    assert why in advice.why


def test_states_of_one_task_are_not_counted_as_many() -> None:
    one, other = (advise(**{**GOOD, "unsafe_rate": 0.06, "tasks": tasks, "pruned": 4000}) for tasks in (4000, 60))
    assert (one.verdict, other.verdict) == ("deploy it", "try it in shadow mode first")
