"""Statements over many rows or names, on both databases."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.statements import (
    LONGEST_NAME,
    among,
    insert_all,
    insert_new,
    next_row_number,
    rows_named,
    storable,
    storable_text,
)
from drsr.offline.catalog.tables import Execution, Source, SourceFile

AWKWARD = ["a", "", "größe 😀", "it's", 'quo"ted', "100%s", "%(name)s", "back\\slash", ":bind", "?", "[1, 2]", "null"]


def test_new_rows_are_inserted_once(catalog: Catalog) -> None:
    for names in (["a", "b"], ["b", "c"], ["c"], []):
        with catalog.writing() as connection:
            insert_new(connection, Source, [{"name": name} for name in names])
    with catalog.reading() as connection:
        assert sorted(connection.execute(select(Source.name)).scalars()) == ["a", "b", "c"]


def test_a_repeated_row_is_an_error_where_all_must_be_new(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        insert_all(connection, Source, [{"name": "a"}])
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        insert_all(connection, Source, [{"name": "b"}, {"name": "a"}])
    with catalog.reading() as connection:
        assert list(connection.execute(select(Source.name)).scalars()) == ["a"]


def test_names_are_found_as_they_were_stored(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        insert_new(connection, Source, [{"name": name} for name in [*AWKWARD, "not asked for"]])
        query = select(Source.name).where(among(connection, Source.name, AWKWARD))
        assert set(connection.execute(query).scalars()) == set(AWKWARD)
        nothing = select(Source.name).where(among(connection, Source.name, []))
        assert connection.execute(nothing).all() == []


def test_rows_are_found_by_name_as_by_the_composed_query(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        insert_new(connection, Source, [{"name": name} for name in [*AWKWARD, "not asked for"]])
        for names in (AWKWARD, ["a", "unknown"], []):
            query = select(Source.name, Source.id).where(among(connection, Source.name, names))
            composed = [tuple(row) for row in connection.execute(query)]
            assert sorted(rows_named(connection, (Source.name, Source.id), Source.name, names)) == sorted(composed)


def test_rows_of_one_source_are_told_from_those_of_another(catalog: Catalog) -> None:
    moment = datetime.datetime.now(datetime.UTC)
    counts = {"stamp": None, "trajectories": 0, "quarantined": 0, "read_at": moment}
    with catalog.writing() as connection:
        insert_all(connection, Source, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        files = [{"id": 10 + number, "source_id": number, "location": "same", **counts} for number in (1, 2)]
        insert_all(connection, SourceFile, files)
        columns = (SourceFile.id, SourceFile.stamp)
        assert rows_named(connection, columns, SourceFile.location, ["same", "other"], source_id=2) == [(12, None)]
        assert len(rows_named(connection, columns, SourceFile.location, ["same"])) == 2


def test_more_names_than_sqlite_takes_parameters(catalog: Catalog) -> None:
    names = [f"name {number}" for number in range(33_000)]  # more than SQLite takes parameters
    with catalog.writing() as connection:
        insert_new(connection, Source, [{"name": name} for name in names[::2]])
        found = connection.execute(select(Source.name).where(among(connection, Source.name, names))).scalars()
        assert len(set(found)) == 16_500


def test_moments_and_json_come_back_as_they_were(catalog: Catalog) -> None:
    east = datetime.timezone(datetime.timedelta(hours=5))
    moment = datetime.datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=east)
    shared = {"stage": "ingest", "subject": None, "code_version": "1"}
    rows: list[dict[str, Any]] = [
        {**shared, "started_at": moment, "finished_at": None, "counts": {"a": [1, 2.5, None, "x"]}},
        {**shared, "started_at": moment, "finished_at": moment, "counts": None},
    ]
    with catalog.writing() as connection:
        insert_all(connection, Execution, rows)
        stored = connection.execute(
            select(Execution.started_at, Execution.finished_at, Execution.counts).order_by(Execution.id)
        ).all()
    assert list(map(tuple, stored)) == [(moment, None, {"a": [1, 2.5, None, "x"]}), (moment, moment, None)]
    assert stored[0].started_at.tzinfo == datetime.UTC


def test_row_numbers_follow_the_largest(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        assert next_row_number(connection, Source) == 1
        insert_all(connection, Source, [{"id": 41, "name": "a"}])
        assert next_row_number(connection, Source) == 42


@given(st.text(st.characters(codec=None), max_size=2 * LONGEST_NAME))
def test_any_name_is_made_storable(name: str) -> None:
    stored = storable(name)
    assert len(stored) <= LONGEST_NAME
    assert "\0" not in stored
    assert storable(stored) == stored
    stored.encode("utf-8")
    assert "\0" not in storable_text(name)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=LONGEST_NAME))
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert storable(name) == storable_text(name) == name


def test_long_names_stay_different() -> None:
    assert storable("a" * 1_000) != storable("a" * 1_001)


def test_any_name_can_be_stored(catalog: Catalog) -> None:
    names = ["\0", "\ud800", "x" * 10_000, "\U0010ffff" * 5_000, *AWKWARD]
    with catalog.writing() as connection:
        insert_all(connection, Source, [{"name": storable(name)} for name in names])
        stored = set(connection.execute(select(Source.name)).scalars())
    assert stored == {storable(name) for name in names}
