"""The logical content of a catalog: two catalogs with one content hash hold the same facts.

Row numbers, moments and places in the artifact store depend on when and in which order workers ran; they are left out.
A reference to another row counts as that row's own content.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from sqlalchemy import Column, Connection, select
from sqlalchemy import Table as Relation

from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.tables import Table


def content_hash_of_catalog(connection: Connection) -> str:
    """SHA-256 over the facts of all tables but the journal of runs."""
    total = hashlib.sha256()
    for name, rows in logical_rows(connection).items():
        total.update(orjson.dumps([name, rows]))
    return total.hexdigest()


def logical_rows(connection: Connection) -> dict[str, list[str]]:
    """For every table the sorted hashes of its rows' facts; the difference of two shows where catalogs differ."""
    hashes: dict[str, dict[int, str]] = {}
    rows: dict[str, list[str]] = {}
    # A table comes after those it refers to.
    for table in Table.metadata.sorted_tables:
        if table.info.get("journal"):
            continue
        facts = [column for column in table.columns if not _is_row_number(column) and not column.info.get("physical")]
        row_number = table.columns.get("id")
        hashes[table.name] = {}
        rows[table.name] = []
        for row in connection.execute(select(table)).mappings():
            digest = content_key([_fact(column, row[column], hashes) for column in facts])
            rows[table.name].append(digest)
            if row_number is not None:
                hashes[table.name][row[row_number]] = digest
        rows[table.name].sort()
    return rows


def _fact(column: Column[Any], value: Any, hashes: dict[str, dict[int, str]]) -> Any:
    target = _referenced_row_number(column)
    return value if target is None or value is None else hashes[target.name][value]


def _is_row_number(column: Column[Any]) -> bool:
    return column.name == "id" and column.primary_key


def _referenced_row_number(column: Column[Any]) -> Relation | None:
    """The table whose row number the column holds, if it holds one: directly, or by referring to a column that does."""
    for key in column.foreign_keys:
        if key.column.table is column.table:  # versions of one run refer to each other by number, not by row
            continue
        found = key.column.table if _is_row_number(key.column) else _referenced_row_number(key.column)
        if found is not None:
            return found
    return None
