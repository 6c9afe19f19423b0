"""The journal: one row per event that changed what a policy can be made from, each with the hash of the one before.

It is only ever added to, in the transaction of what it tells. A write transaction is alone in the catalog
(`engine.py`), so the chain is one line whoever works in parallel; a labelling worker writes one event per run that it
commits.

    event = SHA-256(number, kind, SHA-256 of the event before, content)
    content = rows that are new, changed (a fingerprint) or gone (null), by kind of row (`ledger.py`), and a few facts

Moments are beside the chain and not in it: the same work in another catalog gives the same head. A catalog from before
the journal begins with what it held then; how that came to be, its journal does not cover.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson
from sqlalchemy import CheckConstraint, Connection, Select, String, func, select
from sqlalchemy.orm import Mapped, mapped_column

from drsr.errors import CatalogError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.statements import insert_all
from drsr.offline.catalog.tables import JOURNAL, Hash, Table, one_of

KINDS = (
    *("open", "ingest", "supersede", "import", "freeze", "label", "forget"),
    *("withdraw", "take-back", "erase", "promise", "train", "calibrate", "publish", "read"),
)
NOTHING = "0" * 64
"""Takes the place of the event before the first."""
MOST_ROWS = 5_000
"""Rows in one event: a large catalog is opened with several."""

Change = Mapping[str, str | None]
"""Fingerprints by name; None: the row is gone."""


class JournalEvent(Table):
    """One row per event, never changed and never deleted."""

    __tablename__ = "journal_event"
    __table_args__ = (one_of("kind", KINDS), CheckConstraint("id >= 1", name="id"), {"info": JOURNAL})

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """1, 2, ... without a gap."""
    kind: Mapped[str] = mapped_column(String(9))
    content: Mapped[str]
    """Canonical JSON, kept as the text that was hashed."""
    before: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the event before."""
    sha256: Mapped[str] = mapped_column(Hash)
    noted_at: Mapped[datetime.datetime]
    """The moment, by the writer's clock. Not in the chain."""


class Head(NamedTuple):
    """An event whose hash covers itself and all before it."""

    number: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.number} {self.sha256}"


class Event(NamedTuple):
    """An event as it was written."""

    number: int
    kind: str
    content: str
    before: str
    sha256: str
    noted_at: datetime.datetime

    @property
    def head(self) -> Head:
        return Head(self.number, self.sha256)

    @property
    def rows(self) -> dict[str, dict[str, str | None]]:
        """Return the rows it changed, by kind."""
        found: dict[str, dict[str, str | None]] = orjson.loads(self.content)["rows"]
        return found

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.content)["facts"]
        return found


_HEAD = select(JournalEvent.id, JournalEvent.sha256).order_by(JournalEvent.id.desc()).limit(1)


def note(connection: Connection, kind: str, rows: Mapping[str, Change], **facts: Any) -> None:
    """Add an event in the write transaction that it describes, unless nothing has changed."""
    parts = [*_parts({name: change for name, change in rows.items() if change})]
    last = head(connection)
    if last is None and kind != "open":
        raise CatalogError("the catalog's journal was never opened", hint="drsr catalog upgrade")
    _append(connection, last or Head(0, NOTHING), kind, parts, facts)


def open_journal(connection: Connection) -> None:
    """Begin a catalog's journal with what the catalog holds, unless it has begun."""
    if head(connection) is not None:
        return
    rows = ledger.whole(connection)
    counts = {name: len(found) for name, found in rows.items()}
    hashes = {name: content_key(found) for name, found in rows.items()}
    parts = [*_parts({name: found for name, found in rows.items() if found})] or [{}]
    _append(connection, Head(0, NOTHING), "open", parts, {"counts": counts, "sha256": hashes})


def head(connection: Connection) -> Head | None:
    """Return the latest event; None if there is no journal yet."""
    row = connection.execute(_HEAD).first()
    return None if row is None else Head(*row)


def events(connection: Connection) -> Iterator[Event]:
    """Yield all events in order."""
    yield from (Event(*row) for row in connection.execute(_events().order_by(JournalEvent.id)))


def get_event(connection: Connection, number: int) -> Event:
    """Return the event of this number, which must exist."""
    return Event(*connection.execute(_events().where(JournalEvent.id == number)).one())


def event_of(connection: Connection, name: str, *kinds: str) -> Head | None:
    """Return the first event of some kinds, or of the opening, that names a row. A name is a hash, found as it is."""
    query = select(JournalEvent.id, JournalEvent.sha256).where(JournalEvent.kind.in_([*kinds, "open"]))
    found = query.where(func.instr(JournalEvent.content, f'"{name}"') > 0)
    if connection.dialect.name == "postgresql":
        found = query.where(func.strpos(JournalEvent.content, f'"{name}"') > 0)
    row = connection.execute(found.order_by(JournalEvent.id).limit(1)).first()
    return None if row is None else Head(*row)


def event_hash(number: int, kind: str, before: str, content: str) -> str:
    """Return the hash of an event, which covers the one before and so all of them."""
    return hashlib.sha256(orjson.dumps([number, kind, before]) + b"\n" + content.encode()).hexdigest()


def _events() -> Select[Any]:
    columns = (JournalEvent.id, JournalEvent.kind, JournalEvent.content, JournalEvent.before, JournalEvent.sha256)
    return select(*columns, JournalEvent.noted_at)


def _parts(rows: Mapping[str, Change]) -> Iterator[dict[str, dict[str, str | None]]]:
    """Rows in parts of at most `MOST_ROWS`, in a fixed order."""
    part: dict[str, dict[str, str | None]] = {}
    count = 0
    for dataset, change in sorted(rows.items()):
        for name in sorted(change):
            part.setdefault(dataset, {})[name] = change[name]
            count += 1
            if count == MOST_ROWS:
                yield part
                part, count = {}, 0
    if part:
        yield part


def _append(
    connection: Connection, last: Head, kind: str, parts: list[dict[str, dict[str, str | None]]], facts: dict[str, Any]
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    new = []
    for rows in parts:
        content = orjson.dumps({"facts": facts, "rows": rows}, option=orjson.OPT_SORT_KEYS).decode()
        number, before = last.number + 1, last.sha256
        last = Head(number, event_hash(number, kind, before, content))
        chained = {"content": content, "before": before, "sha256": last.sha256}
        new.append({"id": number, "kind": kind, **chained, "noted_at": now})
    insert_all(connection, JournalEvent, new)
