"""Unsafe sets declared unmeasurable, harms lowered where they decide the threshold: seen without drawing a state."""

from __future__ import annotations

import sqlite3

import orjson
import pytest

from drsr.offline.audit.checks import labels
from drsr.offline.audit.running import run_audit
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.store.kept import Kept
from tests.offline.audit.published import PublishedPipeline, ask, asked, audited, by_hand, failures
from tests.offline.small_pipeline import Pipeline


def test_an_honest_catalog_passes(pipeline: Pipeline) -> None:
    assert asked(pipeline, labels.CHECK) == {}


def test_an_unsafe_set_moved_to_the_exclusions(pipeline: Pipeline) -> None:
    state, labeler, mask = _worst(pipeline)
    for table in ("interaction", "label"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ? AND mask = ?", state, mask)
    row = (state, labeler, mask, "out_of_memory", "one forward over 900 tokens: out of memory")
    by_hand(pipeline, "INSERT INTO label_exclusion VALUES (?, ?, ?, ?, ?)", *row)
    caught = asked(pipeline, labels.CHECK)["labels remeasured"]
    assert f"deletion set {mask}: excluded as out_of_memory, and can be measured: its NLL is " in caught


@pytest.mark.parametrize("reason", ["out_of_memory", "target_too_long"])
def test_a_bad_state_that_was_excluded(pipeline: Pipeline, reason: str) -> None:
    state, *_ = _worst(pipeline)
    for table in ("interaction", "label"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", state)
    changes = "outcome = 'excluded', reason = ?, detail = '', intact_nll = NULL"
    by_hand(pipeline, f"UPDATE state_measurement SET {changes} WHERE state_id = ?", reason, state)
    caught = asked(pipeline, labels.CHECK)["labels remeasured"]
    assert f"excluded as {reason}, and can be measured: its NLL is " in caught


def test_a_set_of_test_that_was_excluded(release: PublishedPipeline) -> None:
    """Nothing was fitted on it: the evaluation would look better."""
    pipeline = release.pipeline
    assert failures(audited(release, [labels.CHECK], sample=0)) == {}
    state, labeler, mask = _worst(pipeline, "test")
    for table in ("interaction", "label"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ? AND mask = ?", state, mask)
    by_hand(pipeline, "INSERT INTO label_exclusion VALUES (?, ?, ?, 'out_of_memory', '')", state, labeler, mask)
    caught = failures(audited(release, [labels.CHECK], sample=0))["labels remeasured"]
    assert f"deletion set {mask}: excluded as out_of_memory, and can be measured: its NLL is " in caught


def test_harms_lowered_where_they_decide(pipeline: Pipeline) -> None:
    """In one state of validation that the operating point selects. A sample of one would rarely hit it."""
    deciding = labels.deciding_sets(Subject(pipeline.catalog, pipeline.artifacts, Order()), neighbours=0)
    assert len(deciding) == pipeline.calibration.selected > 0
    key, mask = min(deciding.items())
    ((state,),) = ask(pipeline, "SELECT id FROM decision_state WHERE state_key = ?", key)
    lowered = "harm = harm - 0.05, deleted_nll = deleted_nll - 0.05, unsafe = harm - 0.05 > 0.02"
    by_hand(pipeline, f"UPDATE label SET {lowered} WHERE state_id = ? AND mask = ?", state, mask)
    caught = asked(pipeline, labels.CHECK)["labels remeasured"]
    assert caught.startswith(f"state {key}, deletion set {mask}: recorded ")


def test_harms_lowered_where_they_decide_and_in_what_a_night_kept(pipeline: Pipeline) -> None:
    """A night believes its own file of what it measured before. An audit opens none."""
    kept = Kept(pipeline.folder / "kept.sqlite", "code")
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order(sample=0), kept=kept)
    assert run_audit(subject, [labels.CHECK]).passed
    key, mask = min(labels.deciding_sets(subject, neighbours=0).items())
    ((state,),) = ask(pipeline, "SELECT id FROM decision_state WHERE state_key = ?", key)
    lowered = "harm = harm - 0.001, deleted_nll = deleted_nll - 0.001"
    by_hand(pipeline, f"UPDATE label SET {lowered} WHERE state_id = ? AND mask = ?", state, mask)
    with sqlite3.connect(pipeline.folder / "kept.sqlite") as file:
        for content, value in file.execute("SELECT content, value FROM kept").fetchall():
            target, possible, harms = orjson.loads(value)
            forged = orjson.dumps([target, possible, [[of, harm - 0.001 * (of == mask)] for of, harm in harms]])
            file.execute("UPDATE kept SET value = ? WHERE content = ?", (forged, content))
    assert key in asked(pipeline, labels.CHECK)["labels remeasured"]


def _worst(pipeline: Pipeline, split: str = "validation") -> tuple[int, int, int]:
    """State, labeler and mask of the most harmful set of a split."""
    return ask(
        pipeline,
        "SELECT l.state_id, l.labeler_id, l.mask FROM label l JOIN decision_state s ON s.id = l.state_id "
        "JOIN trajectory t ON t.id = s.trajectory_id WHERE t.split = ? ORDER BY l.harm DESC",
        split,
    )[0]
