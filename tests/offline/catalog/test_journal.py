"""The journal: one chain on both databases, whoever writes at the same time; the same work gives the same head."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete

from drsr.errors import CatalogError
from drsr.offline.catalog import journal, ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import NOTHING, JournalEvent, event_hash, event_of, events, head, note, open_journal
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.withdrawals import take_back, withdraw
from tests.offline.catalog.read_runs import part, record_parts, run


def chain(catalog: Catalog) -> list[journal.Event]:
    with catalog.reading() as connection:
        return list(events(connection))


def test_every_event_has_the_hash_of_the_one_before(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    record_parts(catalog, part("f", run("r", "two")))
    with catalog.writing() as connection:
        withdraw(connection, "s/r", "a copy")
        take_back(connection, "s/r")
    found = chain(catalog)
    assert [event.kind for event in found] == ["open", "ingest", "ingest", "supersede", "withdraw", "take-back"]
    before = NOTHING
    for number, event in enumerate(found, 1):
        assert (event.number, event.before) == (number, before)
        assert event.sha256 == event_hash(number, event.kind, before, event.content)
        before = event.sha256
    with catalog.reading() as connection:
        assert head(connection) == found[-1].head
        (name,) = found[4].rows["withdrawal"]
        assert event_of(connection, name, "withdraw") == found[4].head
        assert event_of(connection, name, "calibrate") is None


def test_what_changes_nothing_is_no_event(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    before = chain(catalog)
    record_parts(catalog, part("f", run("r", "one")))
    assert chain(catalog) == before


def test_what_is_rolled_back_is_no_event(catalog: Catalog) -> None:
    record_parts(catalog, part("f", run("r", "one")))
    before = chain(catalog)
    with pytest.raises(CatalogError, match="after all"), catalog.writing() as connection:
        _fail_after_withdrawing(connection)
    assert chain(catalog) == before


def _fail_after_withdrawing(connection: Connection) -> None:
    withdraw(connection, "s/r", "a copy")
    raise CatalogError("after all")


def test_many_at_once_write_one_chain(catalog: Catalog) -> None:
    def write(number: int) -> None:
        with catalog.writing() as connection:
            note(connection, "label", {"measurement": {f"default {number}": "labelled x"}})

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(40)))
    found = chain(catalog)
    assert [event.number for event in found] == list(range(1, 42))
    assert [event.before for event in found] == [NOTHING, *(event.sha256 for event in found[:-1])]
    assert {name for event in found[1:] for name in event.rows["measurement"]} == {f"default {n}" for n in range(40)}


def test_the_same_work_gives_the_same_head(tmp_path: Path) -> None:
    heads = []
    for name in ("a", "b"):
        with open_catalog(f"sqlite:///{tmp_path}/{name}.sqlite", create=True) as catalog:
            record_parts(catalog, part("f", run("r", "one")))
            heads.append(chain(catalog)[-1].head)
    assert heads[0] == heads[1]


def test_a_journal_is_opened_with_what_is_there(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    record_parts(catalog, part("f", run("r", "one")), part("g", run("q", "two")))
    monkeypatch.setattr(journal, "MOST_ROWS", 3)
    with catalog.writing() as connection:
        connection.execute(delete(JournalEvent))
        with pytest.raises(CatalogError, match="was never opened"):
            note(connection, "label", {"measurement": {"x": "y"}})
        open_journal(connection)
        open_journal(connection)
        rows = ledger.whole(connection)
    found = chain(catalog)
    assert [event.kind for event in found] == ["open", "open"]  # four rows in parts of three
    assert found[0].facts["counts"]["run"] == 2
    told = [name for event in found for change in event.rows.values() for name in change]
    assert sorted(told) == sorted(name for kind in rows.values() for name in kind)
