"""Times forged so that test was read after the policy was calibrated, which is not how it was."""

from __future__ import annotations

import datetime

import pytest

from drsr.errors import InputError
from drsr.offline.audit.checks import split_reads
from drsr.offline.audit.journal import CHECK
from drsr.offline.audit.moments import Anchored, read_anchor
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.journal import Head, event_of, events
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.train.frames import get_training_frame
from tests.offline.audit.published import asked, by_hand, failures
from tests.offline.small_pipeline import Pipeline, fit, quick_params

EARLIER = "datetime({0}, '-1 day')"


@pytest.fixture
def looked(pipeline: Pipeline) -> Pipeline:
    """A pipeline that was calibrated otherwise after a look at test."""
    get_training_frame(pipeline.catalog, pipeline.artifacts, split="test", purpose="evaluate")
    numbers = quick_params(removal_cap=0.19)
    calibration = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers)
    found = pipeline._replace(calibration=calibration)
    assert "was read to evaluate on " in asked(found, split_reads.CHECK)["split reads"]
    assert asked(found, CHECK) == {}
    return found


def backdate(pipeline: Pipeline, *columns: str, where: str = "1") -> None:
    """Move moments to the day before."""
    for column in columns:
        table, name = column.split(".")
        by_hand(pipeline, f"UPDATE {table} SET {name} = {EARLIER.format(name)} WHERE {where}")


def test_the_moments_of_rows(looked: Pipeline) -> None:
    """The read of test follows the calibration by its moment, not by the journal's events."""
    backdate(looked, "split_read.read_at", where="purpose <> 'evaluate'")
    backdate(looked, "training_run.trained_at", "calibration_run.calibrated_at")
    assert "was read to evaluate on " in asked(looked, split_reads.CHECK)["split reads"]
    told = asked(looked, CHECK)["journal"]
    assert f"calibration {looked.calibration.calibration_key} says that it was made on " in told
    assert ", and was noted on " in told


def test_the_moments_of_some_events(looked: Pipeline) -> None:
    """An event that is older than the one before it."""
    with looked.catalog.reading() as connection:
        noted = event_of(connection, looked.calibration.calibration_key, "calibrate")
    assert noted is not None
    backdate(looked, "calibration_run.calibrated_at", where=f"id = {looked.calibration.id}")
    backdate(looked, "journal_event.noted_at", where=f"id = {noted.number}")
    assert f"event {noted.number} was noted on " in asked(looked, CHECK)["journal"]


def test_the_moments_of_everything(looked: Pipeline) -> None:
    """Nothing inside can tell; the moment at which somebody else wrote down a head can."""
    with looked.catalog.reading() as connection:
        (*_, before, last) = events(connection)
    backdate(looked, "training_run.trained_at", "calibration_run.calibrated_at", "journal_event.noted_at")
    backdate(looked, "split_read.read_at")
    assert asked(looked, CHECK) == {}
    caught = judged(looked, f"{before.head} {before.noted_at.isoformat()}\n")
    assert list(caught) == ["journal"]
    assert f"event {last.number} is said to be of " in caught["journal"]
    assert judged(looked, f"{before.head}\n") == {}  # a line that does not say when


def test_moments_moved_to_later(looked: Pipeline) -> None:
    with looked.catalog.reading() as connection:
        (*_, last) = events(connection)
    at = last.noted_at - datetime.timedelta(hours=1)
    said = judged(looked, f"{last.head} {at.isoformat()}\n")["journal"]
    assert f"event {last.number} is said to be of {last.noted_at:%Y-%m-%d %H:%M:%S} UTC, and was anchored on " in said


def test_anchors() -> None:
    head = Head(3, "a" * 64)
    at = datetime.datetime(2026, 11, 18, 7, tzinfo=datetime.UTC)
    data = f"{head} 2026-11-18T08:00:00+01:00\n{head}\n".encode()
    assert read_anchor(data) == [Anchored(head, at), Anchored(head, None)]
    for line in (b"hello", f"{head} yesterday".encode(), b"x " + b"a" * 64, b"3 " + b"a" * 63):
        with pytest.raises(InputError, match="line 1 is not a head of a journal"):
            read_anchor(line)


def test_an_anchor_without_a_head(looked: Pipeline) -> None:
    """It would hold nothing up, and the verdict would no longer say that nothing was handed over."""
    assert "holds no head of a journal" in judged(looked, "")["journal"]


def judged(pipeline: Pipeline, anchor: str) -> dict[str, str]:
    order = Order(anchor=anchor.encode())
    return failures(run_audit(Subject(pipeline.catalog, pipeline.artifacts, order), [CHECK]))
