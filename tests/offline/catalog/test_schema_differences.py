"""A database that holds, takes or shows other rows than were written is not the one that drsr made."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from drsr.offline.catalog.migrations import open_catalog, schema_differences
from tests.offline.databases import fresh_database


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("CREATE RULE forget AS ON INSERT TO split_read DO INSTEAD NOTHING", "rule forget on split_read"),
        ("ALTER TABLE split_read ENABLE ROW LEVEL SECURITY", "row security enabled on split_read"),
        ("CREATE TABLE more_labels () INHERITS (label)", "child more_labels on label"),
    ],
)
def test_what_only_postgresql_can_do(tmp_path: Path, statement: str, says: str) -> None:
    with fresh_database("postgresql", tmp_path, migrated=True) as url, open_catalog(url) as catalog:
        with catalog.reading() as connection:
            assert schema_differences(connection) == []
        with catalog.writing() as connection:
            connection.execute(text(statement))
        with catalog.reading() as connection:
            assert says in schema_differences(connection)
