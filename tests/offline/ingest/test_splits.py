"""Splits: proportions, and that an assignment never moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.splits import assign_split, group_key


def test_the_proportions_are_80_10_10() -> None:
    counts = Counter(assign_split(f"task:{number}") for number in range(20_000))
    # Four standard deviations of a binomial with n = 20,000.
    assert counts["train"] == pytest.approx(16_000, abs=230)
    assert counts["validation"] == pytest.approx(2_000, abs=170)
    assert counts["test"] == pytest.approx(2_000, abs=170)


def test_assignments_are_the_same_on_every_machine_and_for_ever() -> None:
    """Recorded once. A change here would move groups between splits in every new catalog."""
    assert assign_split("task:airline/0") == "train"
    assert assign_split("task:airline/3") == "test"
    assert assign_split("task:größe/7") == "validation"
    assert assign_split("trajectory:a/b") == "train"


def test_trials_of_a_task_are_one_group_whatever_their_source() -> None:
    assert group_key("nightly", "run-1", "airline/7") == group_key("weekly", "run-2", "airline/7") == "task:airline/7"


def test_without_a_task_every_run_is_a_group() -> None:
    assert group_key("nightly", "run-1", None) == "trajectory:nightly/run-1"
    assert group_key("nightly", "run-1", None) != group_key("weekly", "run-1", None)


def test_an_empty_task_is_a_task() -> None:
    assert group_key("nightly", "run-1", "") == "task:"


@given(st.text(st.characters(codec="utf-8")))
def test_every_group_has_a_split(group: str) -> None:
    assert assign_split(group) in ("train", "validation", "test")
