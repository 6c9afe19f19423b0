"""Statements over many rows or names at once, in each database's own dialect.

SQLAlchemy's own way composes and compiles every statement and prepares every value in Python, which would cost more
than reading the trajectories.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Dialect, Text, bindparam, column, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import InstrumentedAttribute

from drsr.offline.catalog.tables import Table

LONGEST_NAME = 400
"""Characters of a name that is indexed: PostgreSQL refuses index entries of more than about 2,700 bytes."""


class _Insert(NamedTuple):
    sql: str
    columns: tuple[str, ...]
    """In the order of the statement's parameters."""
    encode: tuple[tuple[int, Callable[[Any], Any]], ...]
    """Columns whose values the driver does not take as they are, with what makes them fit."""


def insert_all(connection: Connection, table: type[Table], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, all with the same columns. One that repeats a unique key is an error."""
    _insert(connection, table, rows, "")


def insert_new(connection: Connection, table: type[Table], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those rows, all with the same columns, that are not there yet: none that repeats a unique key."""
    _insert(connection, table, rows, " ON CONFLICT DO NOTHING")


def next_row_number(connection: Connection, table: type[Table]) -> int:
    """Return the first free row number of a table that numbers its rows itself. Only under the catalog's write lock."""
    number: int = connection.exec_driver_sql(f"SELECT coalesce(max(id), 0) + 1 FROM {table.__tablename__}").scalar_one()
    return number


def rows_named(
    connection: Connection,
    columns: Sequence[InstrumentedAttribute[Any]],
    of: InstrumentedAttribute[str],
    names: Sequence[str],
    *,
    source_id: int | None = None,
) -> Sequence[tuple[Any, ...]]:
    """Return columns of those rows of a table whose `of` is among the names, and that belong to the source if one is
    given.

    For columns of text and whole numbers, which the drivers hand out as they are.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    shown = ", ".join(column.key for column in columns)
    sql = f"SELECT {shown} FROM {of.class_.__tablename__} WHERE {of.key} "
    sql += "IN (SELECT value FROM json_each(?))" if is_sqlite else "= ANY(%s)"
    values: list[Any] = [orjson.dumps(names).decode() if is_sqlite else list(names)]
    if source_id is not None:
        sql += f" AND source_id = {'?' if is_sqlite else '%s'}"
        values.append(source_id)
    return connection.exec_driver_sql(sql, tuple(values)).tuples().all()


def among(connection: Connection, of: InstrumentedAttribute[str], names: Sequence[str]) -> ColumnElement[bool]:
    """`of IN (names)` with one parameter for all names, so that one statement serves however many there are."""
    if connection.dialect.name == "sqlite":
        listed = bindparam(None, orjson.dumps(names).decode(), Text)
        return of.in_(select(column("value")).select_from(func.json_each(listed)))
    return of == func.any(bindparam(None, list(names), postgresql.ARRAY(Text)))


def storable(name: str) -> str:
    """Return the name made fit for both databases: without NUL or lone surrogates, and short enough for an index."""
    if name.isascii() and len(name) <= LONGEST_NAME and "\0" not in name:
        return name
    clean = storable_text(name)
    if len(clean) <= LONGEST_NAME:
        return clean
    return f"{clean[: LONGEST_NAME - 20]}...{hashlib.sha256(clean.encode()).hexdigest()[:16]}"


def storable_text(text: str) -> str:
    """Return the same text of any length, without what PostgreSQL (NUL) or both (lone surrogates) refuse to store."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _insert(connection: Connection, table: type[Table], rows: Sequence[Mapping[str, Any]], on_conflict: str) -> None:
    if not rows:
        return
    prepared = _prepare(table, connection.dialect, tuple(rows[0]))
    values = [[row[name] for name in prepared.columns] for row in rows]
    for position, encode in prepared.encode:
        _encode_column(values, position, encode)
    connection.exec_driver_sql(prepared.sql + on_conflict, [tuple(row_values) for row_values in values])


def _encode_column(values: list[list[Any]], position: int, encode: Callable[[Any], Any]) -> None:
    """A moment is as a rule the same in all rows of a batch: the same object is encoded once."""
    before = encoded = None
    for row_values in values:
        value = row_values[position]
        if value is not before:
            before, encoded = value, encode(value)
        row_values[position] = encoded


@lru_cache(maxsize=64)
def _prepare(table: type[Table], dialect: Dialect, columns: tuple[str, ...]) -> _Insert:
    marks = ", ".join(["?" if dialect.name == "sqlite" else "%s"] * len(columns))
    sql = f"INSERT INTO {table.__tablename__} ({', '.join(columns)}) VALUES ({marks})"
    types = [table.__table__.columns[name].type.dialect_impl(dialect) for name in columns]
    encoders = [(position, kind.bind_processor(dialect)) for position, kind in enumerate(types)]
    return _Insert(sql, columns, tuple((position, encode) for position, encode in encoders if encode is not None))
