"""What is inconvenient is left out: measurements, states, frozen runs, whole runs. Freezing again finds each."""

from __future__ import annotations

import pytest

from drsr.offline.audit.checks import future, states
from drsr.offline.audit.exclusions import CHECK as EXCLUSIONS
from tests.offline.audit.published import ask, asked, by_hand
from tests.offline.small_pipeline import Pipeline

_OF_A_STATE = ("interaction", "label", "state_measurement", "state_features", "candidate")


@pytest.fixture
def bad(pipeline: Pipeline) -> tuple[int, int]:
    """A state of validation, and its run."""
    return first_state(pipeline, "validation")


def first_state(pipeline: Pipeline, split: str) -> tuple[int, int]:
    return ask(
        pipeline,
        "SELECT s.id, t.id FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "WHERE t.split = ? ORDER BY s.id LIMIT 1",
        split,
    )[0]


def test_a_measurement(pipeline: Pipeline, bad: tuple[int, int]) -> None:
    for table in _OF_A_STATE[:3]:
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", bad[0])
    assert "a run is measured whole" in asked(pipeline, states.CHECK)["states frozen again"]


def test_a_state(pipeline: Pipeline, bad: tuple[int, int]) -> None:
    for table in _OF_A_STATE:
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", bad[0])
    by_hand(pipeline, "DELETE FROM decision_state WHERE id = ?", bad[0])
    assert " gives states at [" in asked(pipeline, states.CHECK)["states frozen again"]


@pytest.mark.parametrize("split", ["validation", "test"])
def test_the_features_of_a_bad_state(pipeline: Pipeline, split: str) -> None:
    """Recorded as not to be had: the state is labelled, and nothing is fitted or evaluated on it."""
    bad = first_state(pipeline, split)
    without = "UPDATE state_features SET outcome = 'excluded', reason = ?, file_id = NULL WHERE state_id = ?"
    by_hand(pipeline, without, "misaligned_span", bad[0])
    assert (
        "recorded as without features (misaligned_span), and they can be computed"
        in (asked(pipeline, future.CHECK)["no future in a feature"])
    )
    by_hand(pipeline, without, "out_of_memory", bad[0])
    caught = asked(pipeline, EXCLUSIONS)["exclusions within budget"]  # which needs no text
    assert "excluded as out_of_memory of its features" in caught


def test_the_mark_of_a_frozen_run(pipeline: Pipeline, bad: tuple[int, int]) -> None:
    by_hand(pipeline, "DELETE FROM frozen_trajectory WHERE trajectory_id = ?", bad[1])
    assert "no mark that it was frozen" in asked(pipeline, states.CHECK)["states frozen again"]


def test_a_run(pipeline: Pipeline, bad: tuple[int, int]) -> None:
    for table in _OF_A_STATE:
        mine = "SELECT id FROM decision_state WHERE trajectory_id = ?"
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id IN ({mine})", bad[1])
    for table in ("decision_state", "frozen_trajectory", "trajectory_file"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE trajectory_id = ?", bad[1])
    by_hand(pipeline, "DELETE FROM trajectory WHERE id = ?", bad[1])
    caught = asked(pipeline, states.CHECK)["states frozen again"]
    assert "held 1 runs when it was read, 0 of them are in the catalog" in caught
