"""The hash of what a catalog says: blind to order and time, sharp for every fact."""

from __future__ import annotations

import datetime

from sqlalchemy import insert, update

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import start_run
from drsr.offline.catalog.tables import Source, SourceFile, Trajectory
from tests.offline.catalog.read_runs import part, record_parts, run
from tests.offline.catalog.test_tables import ROWS, relation
from tests.offline.logical_content import content_hash_of_catalog, logical_rows


def content(catalog: Catalog) -> str:
    with catalog.reading() as connection:
        return content_hash_of_catalog(connection)


def test_order_and_moments_do_not_count(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one"), stamp="1"))
    record_parts(catalog, part("b", run("q", "two"), stamp="2"))
    before = content(catalog)
    with catalog.writing() as connection:
        start_run(connection, "ingest", None, "1")
        connection.execute(update(Trajectory).values(created_at=datetime.datetime.now(datetime.UTC), blob="elsewhere"))
        connection.execute(update(SourceFile).values(stamp=None))
    assert content(catalog) == before


def test_row_numbers_do_not_count(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        connection.execute(insert(Source).values(id=17, name="s"))
        connection.execute(insert(SourceFile).values(ROWS[SourceFile] | {"id": 4, "source_id": 17}))
        with_other_numbers = content_hash_of_catalog(connection)
        connection.rollback()
    with catalog.writing() as connection:
        connection.execute(insert(Source).values(id=1, name="s"))
        connection.execute(insert(SourceFile).values(ROWS[SourceFile]))
        assert content_hash_of_catalog(connection) == with_other_numbers


def test_every_fact_counts(catalog: Catalog) -> None:
    """Each row that is added changes the hash, but for the journal of runs."""
    with catalog.writing() as connection:
        before = content_hash_of_catalog(connection)
        for table, row in ROWS.items():
            connection.execute(insert(table).values(row))
            after = content_hash_of_catalog(connection)
            assert (after == before) == bool(relation(table).info.get("journal")), table
            before = after


def test_a_difference_can_be_located(catalog: Catalog) -> None:
    record_parts(catalog, part("a", run("r", "one")))
    with catalog.reading() as connection:
        before = logical_rows(connection)
    record_parts(catalog, part("a", run("r", "two")))
    with catalog.reading() as connection:
        after = logical_rows(connection)
    assert {name for name in after if after[name] != before[name]} == {"trajectory", "trajectory_file"}
