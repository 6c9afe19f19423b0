"""Writing down what an ingest read, one batch per transaction, so that a rerun or a second worker changes nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update

from drsr.offline.catalog import ledger
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.statements import (
    among,
    insert_all,
    insert_new,
    next_row_number,
    rows_named,
    storable,
    storable_text,
)
from drsr.offline.catalog.tables import QuarantinedItem, Source, SourceFile, SplitGroup, Trajectory
from drsr.offline.ingest.same_run import Compare
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.ingest.versions import ReadTrajectory, Runs

CONFLICT = "conflicting_id"
"""Reason of a run that was refused because another file said something else about it before."""
MOST_QUARANTINED = 1_000
"""Rows of `quarantined_item` for one file. A file with a million bad lines is summed up in one more row."""


@dataclass(slots=True)
class ReadFile:
    """A file while it is read and recorded, in one transaction or, if it is large, in several."""

    source: str
    location: str
    stamp: str | None
    """Mark by which the next ingest recognises it; None if it must be read again."""
    held: int = 0
    """Trajectories that were recorded from it so far."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Count of each reason given so far for not reading or refusing something in it."""
    quarantined: dict[tuple[str, str], str] = field(default_factory=dict)
    """The first of these: detail by (location, reason)."""

    def quarantine(self, item: Quarantined) -> None:
        """Note it unless the same was noted before; an item that represents several is always counted."""
        location, reason = storable(item.location), storable(item.reason)
        is_noted = (location, reason) in self.quarantined
        if is_noted and item.count == 1:
            return
        self.reasons[reason] = self.reasons.get(reason, 0) + item.count
        if not is_noted and len(self.quarantined) < MOST_QUARANTINED:
            self.quarantined[location, reason] = storable_text(item.detail)


class Part(NamedTuple):
    """The part of one file in one batch."""

    file: ReadFile
    trajectories: list[ReadTrajectory]
    is_last: bool
    """Whether the file was read to its end with it."""


class Recorded(NamedTuple):
    """The changes of a batch, as numbers of runs."""

    added: int = 0
    superseded: int = 0
    unchanged: int = 0


def known_stamps(
    connection: Connection, locations: Sequence[str], *, with_runs: bool = False
) -> dict[tuple[str, str], str]:
    """Return the stamps of files that were read to their end and can be trusted, by (source, location), in one query.

    `with_runs` leaves out those in which no run was found.
    """
    query = (
        select(Source.name, SourceFile.location, SourceFile.stamp)
        .join(SourceFile, SourceFile.source_id == Source.id)
        .where(among(connection, SourceFile.location, locations), SourceFile.stamp.is_not(None))
    )
    if with_runs:
        query = query.where(SourceFile.trajectories > 0)
    return {(source, location): stamp for source, location, stamp in connection.execute(query).all()}


def known_blobs(connection: Connection, hashes: Sequence[str]) -> dict[str, str]:
    """Artifact keys of the contents that are already stored, by hash."""
    columns = (Trajectory.content_hash, Trajectory.blob)
    return dict(rows_named(connection, columns, Trajectory.content_hash, hashes))


def record(
    connection: Connection, parts: Sequence[Part], blobs: Mapping[str, str], compare: Compare | None = None
) -> Recorded:
    """Record a batch inside the caller's write transaction. `blobs` has the artifact key of every content, `compare`
    relates two of them."""
    source_ids = _source_ids(connection, sorted({part.file.source for part in parts}))
    files = _Files(connection, parts, source_ids)
    batches = []
    for source, source_id in source_ids.items():
        of_source = [part for part in parts if part.file.source == source]
        names = [read.external_id for part in of_source for read in part.trajectories]
        runs = Runs(connection, source_id, names, blobs, compare)
        for part in of_source:
            _take(runs, part, files.row_number(part.file))
        batches.append(runs)
    files_before = ledger.files(connection, files.row_numbers)
    files.write()
    splits = _splits(connection, [read for runs in batches for read in runs.first_versions])
    for runs in batches:
        runs.write(splits)
    new = [number for runs in batches for number in runs.new_ids]
    superseded = [number for runs in batches for number in runs.changed_ids]
    read = ledger.changed(files_before, ledger.files(connection, files.row_numbers))
    note(connection, "ingest", {"file": read, "run": ledger.runs(connection, new)})
    note(connection, "supersede", {"run": ledger.runs(connection, superseded)})
    return Recorded(
        added=sum(runs.added for runs in batches),
        superseded=sum(runs.superseded for runs in batches),
        unchanged=sum(runs.unchanged for runs in batches),
    )


def _take(runs: Runs, part: Part, file_id: int) -> None:
    file = part.file
    for read in part.trajectories:
        earlier = runs.earlier
        if runs.take(read, file_id, file.location):
            file.held += runs.earlier == earlier
            continue
        detail = (
            f"another file, read before, holds run {read.external_id!r} of source {file.source!r} with other content, "
            "and cannot be compared with it; restore the artifact folder, or give the runs different ids"
        )
        file.quarantine(Quarantined(f"{file.location}#{read.external_id}", CONFLICT, detail))
        file.stamp = None  # looked at again next time: the other file may have been mended


def _source_ids(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    insert_new(connection, Source, [{"name": name} for name in names])
    return dict(sorted(rows_named(connection, (Source.name, Source.id), Source.name, names)))


def _splits(connection: Connection, trajectories: Iterable[ReadTrajectory]) -> dict[str, str]:
    """The split of every group: the one it was assigned when it was first seen, which may be now."""
    proposed = {read.group_key: read.split for read in trajectories}
    columns = (SplitGroup.group_key, SplitGroup.split)
    assigned = dict(rows_named(connection, columns, SplitGroup.group_key, list(proposed)))
    new = [{"group_key": key, "split": split} for key, split in proposed.items() if key not in assigned]
    insert_all(connection, SplitGroup, new)
    return proposed | assigned


class _Files:
    """The rows of a batch's files: looked up first, written once their outcome is known."""

    def __init__(self, connection: Connection, parts: Sequence[Part], source_ids: Mapping[str, int]) -> None:
        self._connection = connection
        self._source_ids = source_ids
        self._parts = {self._key(part.file): part for part in parts}
        columns = (SourceFile.source_id, SourceFile.location, SourceFile.id)
        rows = rows_named(connection, columns, SourceFile.location, [part.file.location for part in parts])
        stored: dict[tuple[int, str], int] = {(source_id, location): row_id for source_id, location, row_id in rows}
        first_free = next_row_number(connection, SourceFile)
        new = {key: first_free + index for index, key in enumerate(key for key in self._parts if key not in stored)}
        self._new = set(new)
        self._row_numbers = stored | new
        self._now = _now()

    @property
    def row_numbers(self) -> list[int]:
        return list(self._row_numbers.values())

    def row_number(self, file: ReadFile) -> int:
        return self._row_numbers[self._key(file)]

    def write(self) -> None:
        """New files get a row; those read to their end get stamp and counts, and what is quarantined in them now."""
        rows = {key: self._row(key, part) for key, part in self._parts.items()}
        insert_all(self._connection, SourceFile, [row for key, row in rows.items() if key in self._new])
        again = [row for key, row in rows.items() if key not in self._new and self._parts[key].is_last]
        if again:
            known = update(SourceFile).where(SourceFile.id == bindparam("row_number"))
            columns = ("stamp", "trajectories", "quarantined", "read_at")
            statement = known.values({name: bindparam(f"new_{name}") for name in columns})
            values = [{f"new_{name}": row[name] for name in columns} | {"row_number": row["id"]} for row in again]
            self._connection.execute(statement, values)
            old_items = delete(QuarantinedItem).where(QuarantinedItem.source_file_id == bindparam("row_number"))
            self._connection.execute(old_items, [{"row_number": row["id"]} for row in again])
        items = [item for key, part in self._parts.items() if part.is_last for item in self._items(key, part.file)]
        insert_all(self._connection, QuarantinedItem, items)

    def _key(self, file: ReadFile) -> tuple[int, str]:
        return self._source_ids[file.source], file.location

    def _row(self, key: tuple[int, str], part: Part) -> dict[str, Any]:
        file = part.file
        return {
            "id": self._row_numbers[key],
            "source_id": key[0],
            "location": key[1],
            "stamp": file.stamp if part.is_last else None,
            "trajectories": file.held,
            "quarantined": sum(file.reasons.values()),
            "read_at": self._now,
        }

    def _items(self, key: tuple[int, str], file: ReadFile) -> list[dict[str, Any]]:
        total = sum(file.reasons.values())
        items = file.quarantined
        if total > len(items):
            detail = f"{total} such items in this file, of which {len(items)} are listed"
            items = items | {(file.location, "more"): detail}
        return [
            {"source_file_id": self._row_numbers[key], "location": location, "reason": reason, "detail": detail}
            for (location, reason), detail in items.items()
        ]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
