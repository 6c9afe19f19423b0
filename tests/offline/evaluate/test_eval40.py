"""The list of Eval40 as the paper has it, and names that are recognised."""

from __future__ import annotations

from collections import Counter

import pytest

from drsr.offline.evaluate.eval40 import EVAL40, evaluation_task


def test_forty_tasks_ten_of_each_domain() -> None:
    assert len({found.task for found in EVAL40}) == 40
    assert Counter(found.domain for found in EVAL40) == dict.fromkeys(("code", "office", "security", "web"), 10)
    assert EVAL40[0] == ("code", "api_contract-hard-markup_errors")
    assert EVAL40[-1] == ("web", "cohort-retention-dashboard-L4-054")


@pytest.mark.parametrize("found", EVAL40)
def test_a_task_is_recognised_in_longer_names(found: tuple[str, str]) -> None:
    task = found[1]
    for name in (task, task.upper(), f"code/{task}", f"runs/{task}__trial-3.json", f"{task}.7"):
        assert evaluation_task(name) == task


@pytest.mark.parametrize(
    "name", ["", "api_contract-hard-markup", "xchart-generation-L2-025", "chart-generation-L2-0251", "bug_fix-easy-a"]
)
def test_others_are_not(name: str) -> None:
    assert evaluation_task(name) is None
