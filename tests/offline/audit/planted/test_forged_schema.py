"""A log of reads that is a view, a trigger that forgets: the tables are not those that drsr made."""

from __future__ import annotations

import sqlite3

import pytest

from drsr.offline.audit.checks import split_reads
from tests.offline.audit.published import asked
from tests.offline.small_pipeline import Pipeline

_VIEW = """
ALTER TABLE split_read RENAME TO all_reads;
CREATE VIEW split_read AS SELECT * FROM all_reads WHERE split <> 'test';
"""
_TRIGGER = """
CREATE TRIGGER forget AFTER INSERT ON split_read WHEN NEW.split = 'test'
BEGIN DELETE FROM split_read WHERE id = NEW.id; END;
"""


@pytest.mark.parametrize(
    ("forgery", "says"), [(_VIEW, "split_read is a view"), (_TRIGGER, "trigger forget on split_read")]
)
def test_a_log_that_shows_what_it_should(pipeline: Pipeline, forgery: str, says: str) -> None:
    connection = sqlite3.connect(pipeline.folder / "catalog.sqlite")
    connection.executescript(forgery)
    connection.close()
    caught = asked(pipeline, split_reads.CHECK)["split reads"]
    assert f"the catalog is not the one that drsr made: {says}" in caught
