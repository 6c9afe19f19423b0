"""The order of events: reads, labels, trainings and calibrations by their places in the journal.

A moment in a row can be forged to the minute and nobody would know; the order of the journal's events cannot. What is
older than the journal comes before all of its events, in the order of its moments.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from typing import NamedTuple

from sqlalchemy import Connection

from drsr.offline.catalog.journal import events
from drsr.offline.catalog.reads import FROM_BEFORE

Place = tuple[int, datetime.datetime]
"""The event that records something, 0 for the opening; then its own moment. The smaller came first."""


class Chronology(NamedTuple):
    """The first event that records each row."""

    told: dict[str, dict[str, int]]
    """By kind of row and name; 0 where it is older than the journal."""
    moments: list[datetime.datetime]
    """Moment at which each event was noted, never earlier than the one before."""

    def place(self, kind: str, name: str, at: datetime.datetime) -> Place:
        """Return where a row belongs. A row that no event records in time belongs at its own moment."""
        event = self.told.get(kind, {}).get(name)
        return (bisect_right(self.moments, at) if event is None else event, at)

    def label(self, state_key: str, at: datetime.datetime) -> Place:
        """Return where the first label of a state belongs, of whichever labeler."""
        return self.place("measurement", state_key, at)


def read_chronology(connection: Connection) -> Chronology:
    """Go through the journal once. Its own hashes are for the check "journal" to judge."""
    told: dict[str, dict[str, int]] = {}
    moments: list[datetime.datetime] = []
    for event in events(connection):
        moments.append(max(event.noted_at, moments[-1]) if moments else event.noted_at)
        rows = event.rows
        if event.facts.get(FROM_BEFORE):  # noted at an upgrade, and older than that: their own moments are all there is
            continue
        for kind in ("read", "training", "calibration", "measurement"):
            known = told.setdefault(kind, {})
            for name, value in rows.get(kind, {}).items():
                if value is not None:
                    known.setdefault(name.rpartition(" ")[2], 0 if event.kind == "open" else event.number)
    return Chronology(told, moments)
