"""The log of reads: who read which split, with labels or without, each row in the journal.

A read to evaluate is in the journal with its own transaction, and with it every read before it. Reads to fit and to
describe wait for the next read to evaluate or the next release, so that a policy's bytes do not depend on who looked at
a chart before it was made; until then the audit says how many wait. Why: docs/decisions/0022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from drsr.offline.catalog import ledger
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.journal import JournalEvent, get_event, note
from drsr.offline.catalog.statements import insert_all

FROM_BEFORE = "from_before"
"""The fact that marks an event about reads older than their part of the journal."""


def record_reads(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write reads down, inside the catalog's write transaction."""
    insert_all(connection, SplitRead, rows)
    if any(row["purpose"] == "evaluate" for row in rows):
        note_reads(connection)


def note_reads(connection: Connection, *, from_before: bool = False) -> None:
    """Note every read that the journal does not have yet; `from_before` says that they are older than this is done."""
    facts = {FROM_BEFORE: True} if from_before else {}
    note(connection, "read", {"read": ledger.reads(connection, after=latest_noted(connection))}, **facts)


def latest_noted(connection: Connection) -> int:
    """Return the number of the latest read in the journal, which has all before it; 0 where it has none."""
    query = select(JournalEvent.id).where(JournalEvent.kind.in_(("read", "open"))).order_by(JournalEvent.id.desc())
    for event in connection.execute(query).scalars().all():
        noted = get_event(connection, event).rows.get("read", {})
        if noted:
            return max(map(int, noted))
    return 0
