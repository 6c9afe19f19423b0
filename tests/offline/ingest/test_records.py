"""Files, what is quarantined in them, and runs of stages."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from drsr.offline.catalog import runs
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.tables import Execution, QuarantinedItem, SourceFile
from drsr.offline.catalog.workers import this_worker
from drsr.offline.ingest import records
from drsr.offline.ingest.records import MOST_QUARANTINED, ReadFile, known_blobs, known_stamps
from drsr.offline.ingest.trajectories import Quarantined
from tests.offline.catalog.read_runs import hash_of, part, record_parts, run


def file_rows(catalog: Catalog) -> list[tuple[str, str | None, int, int]]:
    with catalog.reading() as connection:
        columns = (SourceFile.location, SourceFile.stamp, SourceFile.trajectories, SourceFile.quarantined)
        return list(connection.execute(select(*columns).order_by(SourceFile.location)).tuples())


def quarantined(catalog: Catalog) -> list[tuple[str, str, str]]:
    with catalog.reading() as connection:
        columns = (QuarantinedItem.location, QuarantinedItem.reason, QuarantinedItem.detail)
        return list(connection.execute(select(*columns).order_by(*columns)).tuples())


def test_a_file_is_recognised_once_it_was_read_to_its_end(catalog: Catalog) -> None:
    unfinished = part("f", run("r", "one"), stamp="7", is_last=False)
    record_parts(catalog, unfinished)
    assert file_rows(catalog) == [("f", None, 1, 0)]
    with catalog.reading() as connection:
        assert known_stamps(connection, ["f"]) == {}
    record_parts(catalog, unfinished._replace(trajectories=[run("q", "one")], is_last=True))
    assert file_rows(catalog) == [("f", "7", 2, 0)]
    with catalog.reading() as connection:
        assert known_stamps(connection, ["f", "g"]) == {("s", "f"): "7"}


def test_the_same_file_of_two_sources_is_two_files(catalog: Catalog) -> None:
    record_parts(catalog, part("f", source="s", stamp="1"), part("f", source="t", stamp="2"))
    with catalog.reading() as connection:
        assert known_stamps(connection, ["f"]) == {("s", "f"): "1", ("t", "f"): "2"}


def test_the_latest_read_says_what_is_quarantined(catalog: Catalog) -> None:
    first = part("f", run("r", "one"))
    first.file.quarantine(Quarantined("f:2", "truncated_json", "cut"))
    first.file.quarantine(Quarantined("f:3", "truncated_json", "cut"))
    first.file.quarantine(Quarantined("f:3", "truncated_json", "cut as well"))
    record_parts(catalog, first)
    assert quarantined(catalog) == [("f:2", "truncated_json", "cut"), ("f:3", "truncated_json", "cut")]
    mended = part("f", run("r", "one"), run("q", "one"), stamp="2")
    mended.file.quarantine(Quarantined("f:3", "binary", "no text"))
    record_parts(catalog, mended)
    assert quarantined(catalog) == [("f:3", "binary", "no text")]
    assert file_rows(catalog) == [("f", "2", 2, 1)]


def test_a_million_bad_lines_are_told_briefly(catalog: Catalog) -> None:
    file = ReadFile("s", "f", "1")
    for line in range(MOST_QUARANTINED + 5):
        file.quarantine(Quarantined(f"f:{line}", "truncated_json", "cut"))
    with catalog.writing() as connection:
        records.record(connection, [records.Part(file, [], is_last=True)], {})
    found = quarantined(catalog)
    assert len(found) == MOST_QUARANTINED + 1
    assert found[0] == ("f", "more", f"{MOST_QUARANTINED + 5} such items in this file, of which 1000 are listed")
    assert file_rows(catalog) == [("f", "1", 0, MOST_QUARANTINED + 5)]


def test_what_no_database_can_hold_is_made_storable(catalog: Catalog) -> None:
    one = part("f")
    one.file.quarantine(Quarantined("f:\0" + "x" * 5_000, "odd", "a NUL \0 and half a pair \ud800"))
    record_parts(catalog, one)
    ((location, _, detail),) = quarantined(catalog)
    assert location.startswith("f:\\x00xxx")
    assert detail == "a NUL \\x00 and half a pair \\ud800"


def test_contents_are_known_by_their_hash(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one"), run("q", "two")))
    with catalog.reading() as connection:
        known = known_blobs(connection, [hash_of("one"), hash_of("three")])
    assert known == {hash_of("one"): f"blob of {hash_of('one')}"}


def test_a_run_is_noted_when_it_starts_and_when_it_ends(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        at_work = start_run(connection, "ingest", "s3://bucket", "1.0")
        finished = start_run(connection, "freeze", None, "1.0")
        finish_run(connection, finished, {"states": 3})
    with catalog.reading() as connection:
        rows = {row.id: row for row in connection.execute(select(Execution.__table__))}
    assert rows[at_work].finished_at is None
    assert rows[at_work].counts == {"worker": this_worker()}
    assert rows[finished].finished_at >= rows[finished].started_at
    assert rows[finished].counts == {"states": 3}


def test_a_run_whose_process_ended_is_marked_by_the_next(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with catalog.writing() as connection, monkeypatch.context() as patched:
        patched.setattr(runs, "this_worker", lambda: this_worker().rpartition("/")[0] + "/1")
        killed = start_run(connection, "label", None, "1.0")
        patched.setattr(runs, "this_worker", lambda: "elsewhere/7/1")
        far = start_run(connection, "label", None, "1.0")
    with catalog.writing() as connection:
        start_run(connection, "label", None, "1.0")
        counts = dict(
            connection.execute(select(Execution.id, Execution.counts).where(Execution.finished_at.is_(None)))
            .tuples()
            .all()
        )
    assert counts[killed] == {"killed": True}
    assert counts[far] == {"worker": "elsewhere/7/1"}, "nobody can tell from here"
