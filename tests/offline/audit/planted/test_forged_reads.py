"""Rows of the log of reads deleted, changed, added or moved, or a log that shows what it should: each is caught."""

from __future__ import annotations

import datetime
import sqlite3
from functools import partial

import pytest
from alembic import command

from drsr.offline.audit.checks import split_reads
from drsr.offline.audit.journal import CHECK
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog import reads
from drsr.offline.catalog.migrations import alembic_config, downgrade_catalog, open_catalog, upgrade_catalog
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.train.frames import get_training_frame
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import PublishedPipeline, ask, asked, by_hand
from tests.offline.small_pipeline import Pipeline, fit, quick_params

_VIEW = """
ALTER TABLE split_read RENAME TO all_reads;
CREATE VIEW split_read AS SELECT * FROM all_reads WHERE split <> 'test';
"""
_TRIGGER = """
CREATE TRIGGER forget AFTER INSERT ON split_read WHEN NEW.split = 'test'
BEGIN DELETE FROM split_read WHERE id = NEW.id; END;
"""


@pytest.fixture
def looked(pipeline: Pipeline) -> Pipeline:
    """A pipeline that was calibrated otherwise after a look at test."""
    get_training_frame(pipeline.catalog, pipeline.artifacts, split="test", purpose="evaluate")
    numbers = quick_params(removal_cap=0.19)
    return pipeline._replace(calibration=fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers))


def judged(pipeline: Pipeline) -> Verdict:
    (verdict,) = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order()), [CHECK]).verdicts
    return verdict


def said(pipeline: Pipeline) -> str:
    return asked(pipeline, CHECK)["journal"]


def look_of(pipeline: Pipeline) -> int:
    """The number of the one read to evaluate."""
    ((number,),) = ask(pipeline, "SELECT id FROM split_read WHERE purpose = 'evaluate'")
    return int(number)


def test_honest_reads(looked: Pipeline) -> None:
    verdict = judged(looked)
    assert verdict.passed
    assert "reads to fit or describe wait to be noted" in verdict.detail


def test_an_honest_release_has_noted_every_read(release: PublishedPipeline) -> None:
    verdict = judged(release.pipeline)
    assert verdict.passed
    assert "wait to be noted" not in verdict.detail


def test_a_look_at_test_deleted(looked: Pipeline) -> None:
    number = look_of(looked)
    by_hand(looked, "DELETE FROM split_read WHERE id = ?", number)
    assert asked(looked, split_reads.CHECK) == {}
    assert f"logged read {number} is in the journal (event " in said(looked)
    assert ", read) and not in the catalog: it was deleted past the journal" in said(looked)


@pytest.mark.parametrize(
    "change", ["split = 'train'", "purpose = 'describe', labeler_id = NULL", "labels = labels + 1"]
)
def test_a_look_at_test_changed(looked: Pipeline, change: str) -> None:
    by_hand(looked, f"UPDATE split_read SET {change} WHERE id = ?", look_of(looked))
    assert "differently than in the catalog: it was changed past the journal" in said(looked)


def test_a_read_to_train_changed_after_publishing(release: PublishedPipeline) -> None:
    by_hand(release.pipeline, "UPDATE split_read SET states = states - 1 WHERE purpose = 'train'")
    assert "differently than in the catalog: it was changed past the journal" in said(release.pipeline)


def test_a_read_added(release: PublishedPipeline) -> None:
    """For a training on frames that were never read: it has to be there before the training."""
    columns = "view_id, labeler_id, split, purpose, states, labels, excluded, code_version"
    copied = f"{columns}, read_at) SELECT {{0}}{columns}, datetime(read_at, '-1 day') FROM split_read LIMIT 1"
    by_hand(release.pipeline, "INSERT INTO split_read (id, " + copied.format("-1, "))
    by_hand(release.pipeline, "INSERT INTO split_read (" + copied.format(""))
    told = said(release.pipeline)
    assert "logged read -1 is in the catalog and not in its journal: it was added past the journal" in told
    ((last,),) = ask(release.pipeline, "SELECT max(id) FROM split_read")
    assert f"logged read {last} says that it was made on " in told
    assert ", and is not yet noted, after event " in told


def test_a_look_at_test_moved_by_seconds(looked: Pipeline) -> None:
    """To just after the calibration: too little for clocks to tell. The order of the events does."""
    at = looked.calibration.calibrated_at + datetime.timedelta(milliseconds=1)
    by_hand(looked, "UPDATE split_read SET read_at = ? WHERE purpose = 'evaluate'", f"{at:%Y-%m-%d %H:%M:%S.%f}")
    assert "was read to evaluate on " in asked(looked, split_reads.CHECK)["split reads"]


def test_labels_of_test_dated_later_than_the_look(looked: Pipeline) -> None:
    """No task would have had a label then; the event that tells of the labels is older."""
    later = "datetime(measured_at, '+1 day')"
    by_hand(looked, f"UPDATE state_measurement SET measured_at = {later}")
    assert "was read to evaluate on " in asked(looked, split_reads.CHECK)["split reads"]


def test_a_look_at_test_said_to_be_of_before(looked: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at an upgrade, so that its own moment would count and not the order of the events."""
    monkeypatch.setattr(reads, "note_reads", partial(reads.note_reads, from_before=True))
    get_training_frame(looked.catalog, looked.artifacts, split="test", purpose="evaluate")
    assert " says that it records what came before, which only the first reads can" in said(looked)


def test_a_look_at_test_moved_by_a_day(looked: Pipeline) -> None:
    by_hand(looked, "UPDATE split_read SET read_at = datetime(read_at, '+1 day') WHERE purpose = 'evaluate'")
    assert f"logged read {look_of(looked)} says that it was made on " in said(looked)


@pytest.mark.parametrize("by_alembic", [False, True])
def test_a_catalog_whose_journal_had_no_reads(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, by_alembic: bool
) -> None:
    """What was logged before is taken over, and said to be of before."""
    columns = "view_id, labeler_id, states, labels, excluded, code_version, read_at"
    by_hand(
        pipeline,
        f"INSERT INTO split_read (split, purpose, {columns}) SELECT 'test', 'evaluate', {columns} "
        "FROM split_read WHERE labeler_id IS NOT NULL ORDER BY id DESC LIMIT 1",
    )
    numbers = quick_params(removal_cap=0.19)
    calibration = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers)
    logged = len(ask(pipeline, "SELECT id FROM split_read"))
    url = pipeline.settings["DRSR_CATALOG_URL"]
    pipeline.catalog.close()
    downgrade_catalog(url, "0008")
    if by_alembic:
        monkeypatch.setenv("DRSR_CATALOG_URL", url)
        command.upgrade(alembic_config(), "head")
    else:
        upgrade_catalog(url)
    with open_catalog(url) as catalog:
        upgraded = pipeline._replace(catalog=catalog, calibration=calibration)
        verdict = judged(upgraded)
        assert verdict.passed
        assert f"NOT COVERED is how this came to be, which is older than the journal: {logged} logged reads" in (
            verdict.detail
        )
        assert "was read to evaluate on " in asked(upgraded, split_reads.CHECK)["split reads"]
        by_hand(upgraded, "DELETE FROM split_read WHERE purpose = 'evaluate'")
        assert ", open) and not in the catalog: it was deleted past the journal" in said(upgraded)


@pytest.mark.parametrize(
    ("forgery", "says"), [(_VIEW, "split_read is a view"), (_TRIGGER, "trigger forget on split_read")]
)
def test_a_log_that_shows_what_it_should(pipeline: Pipeline, forgery: str, says: str) -> None:
    connection = sqlite3.connect(pipeline.folder / "catalog.sqlite")
    connection.executescript(forgery)
    connection.close()
    caught = asked(pipeline, split_reads.CHECK)["split reads"]
    assert f"the catalog is not the one that drsr made: {says}" in caught
