"""The tasks of a corpus by name: one key per real task across sources, and what must stay on one side of a split.

A reader names a task as its format does. That is not enough where several benchmarks share what their tasks are about,
or where a file does not say its task. `corpora/NAME/tasks.csv` says it row by row. The names are recorded in the
catalog; the bytes of a run stay as they were read, so that what was measured on a run holds whatever it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

from drsr.errors import InputError
from drsr.offline.catalog.tables import SPLITS
from drsr.offline.ingest.corpus.table import CORPORA, Corpus, places, sound_rows
from drsr.offline.ingest.splits import Split, group_key

TABLE = "tasks.csv"
COLUMNS = ("source", "read_as", "task", "group", "split")


class NamedTask(NamedTuple):
    """One row of a table."""

    source: str
    """Name of the catalog source."""
    read_as: str
    """The external id of a run, or the task as the source's reader names it. A run's own row goes first."""
    task: str
    """Its name across sources."""
    group: str
    """Group that must stay on one side of a split: the task, or the subject of several tasks."""
    split: Split | None
    """Split in which the corpus places the group; None: the one that its hash gives."""


class TaskNames:
    """Tables of one or more corpora, looked up by source and by run or task."""

    def __init__(self, rows: Iterable[NamedTask]) -> None:
        self._rows: dict[tuple[str, str], NamedTask] = {}
        self._splits: dict[str, Split | None] = {}
        for row in rows:
            known = self._rows.setdefault(row[:2], row)
            if known != row:
                raise InputError(
                    f"{row.read_as!r} of {row.source} is named twice: {known.task} and {row.task}",
                    hint="leave one row of tasks.csv for it",
                )
            if self._splits.setdefault(row.group, row.split) != row.split:
                raise InputError(f"group {row.group} is placed in two splits", hint="give all its rows the same split")

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def placed_groups(self) -> frozenset[str]:
        """Return the keys of the groups whose split a corpus gives, whatever their hash says."""
        return frozenset(group_key("", "", group) for group, split in self._splits.items() if split is not None)

    @property
    def stamp(self) -> list[list[str | None]]:
        """Every row in order: what changes when the tables do."""
        return [list(self._rows[key]) for key in sorted(self._rows)]

    def find(self, source: str, external_id: str, task: str | None) -> NamedTask | None:
        """Return the row of a run: its own, else that of the task its reader found; None where there is none."""
        own = self._rows.get((source, external_id))
        return own or (None if task is None else self._rows.get((source, task)))

    def find_named(self, source: str, task: str | None) -> NamedTask | None:
        """Return a row that gives a task of a source its name across sources: for runs whose text is not here."""
        return next((row for row in self._rows.values() if (row.source, row.task) == (source, task)), None)


def load_task_names(corpus: str) -> TaskNames:
    """Load the table of a corpus. Raises InputError where there is none, or where it is not sound."""
    for place in places():
        path = place / corpus / TABLE
        if path.is_file():
            return TaskNames(_read(path))
    raise InputError(f"corpus {corpus!r} has no {TABLE}", hint=f"write {CORPORA}/{corpus}/{TABLE}")


def task_names_of(corpus: Corpus) -> TaskNames:
    """Load the table beside a corpus; a corpus without one leaves the names to the readers."""
    path = corpus.folder / TABLE
    return TaskNames(_read(path) if path.is_file() else ())


def all_task_names() -> TaskNames:
    """Load the tables of every corpus that this installation knows; the first place that has a corpus counts."""
    tables: dict[str, Path] = {}
    for place in places():
        for path in sorted(place.glob(f"*/{TABLE}")):
            tables.setdefault(path.parent.name, path)
    return TaskNames(row for path in tables.values() for row in _read(path))


def _read(path: Path) -> Iterator[NamedTask]:
    for where, row in sound_rows(path, COLUMNS):
        if complaint := complaint_about(row):
            raise InputError(complaint, where=where, hint="every row names a source, a run or task, and a group")
        yield named_task(row)


def complaint_about(row: list[str]) -> str | None:
    """Return what is wrong with the cells of a row, if anything is."""
    empty = next((name for name, cell in zip(COLUMNS, row[:4], strict=False) if not cell.strip()), None)
    if empty is not None:
        return f"{empty} is empty"
    return f"split {row[4]!r} is not one of {', '.join(SPLITS)}, or empty" if row[4] and row[4] not in SPLITS else None


def named_task(row: list[str]) -> NamedTask:
    """Return a sound row as a value."""
    source, read_as, task, group, split = row
    return NamedTask(source, read_as, task, group, cast(Split, split) if split else None)
