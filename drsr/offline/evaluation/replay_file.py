"""A replay on disk: JSON lines, appended run by run, so that one that was stopped goes on.

    {"format": "drsr replay/2", "split": ..., "labeler": ..., "summariser": ..., "policy": ...}
    {"name": ..., "title": ..., "assumptions": [...], "left_out": ""}     one per method; a later one replaces it
    {"run": ..., "state_key": ..., "method": ..., ...}                    one per decision and method

The first line says what the rows depend on; rows that depend on something else are refused, never mixed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.evaluation.comparators.contract import Comparator
from drsr.offline.evaluation.output_folder import make_folder
from drsr.offline.evaluation.replay import Replayed

FORMAT = "drsr replay/2"
About = dict[str, Any]
"""What the rows depend on, as JSON values."""


class MethodNote(NamedTuple):
    """What to know about one method besides its numbers."""

    name: str
    title: str
    trained: str = ""
    keeps: tuple[str, ...] = ()
    """What it claims to keep."""
    assumptions: tuple[str, ...] = ()
    """What its source leaves open and we decided."""
    left_out: str = ""
    """Why it has no rows; empty where it has."""


def note_of(method: Comparator) -> MethodNote:
    return MethodNote(
        method.name, method.title, method.trained, tuple(sorted(method.keeps)), tuple(method.assumptions), ""
    )


class Replay(NamedTuple):
    """What a file holds."""

    about: About
    notes: dict[str, MethodNote]
    """By method, also of those that were left out."""
    rows: list[Replayed]


class ReplayFile:
    """One replay. Opening it reads what is there and cuts off a line that was not written to its end. A new file is
    written with its first rows."""

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        self._about = expected = {"format": FORMAT, **about}
        self.notes: dict[str, MethodNote] = {}
        self.rows: list[Replayed] = []
        if not path.exists():
            make_folder(path.parent)
            return
        found, complete = _read(path)
        self.notes, self.rows = found.notes, found.rows
        for name in sorted(expected.keys() | found.about.keys()):
            if found.about.get(name) != expected.get(name):
                raise InputError(
                    f"was made with {name} {found.about.get(name)!r}, this replay has {expected.get(name)!r}",
                    where=str(path),
                    hint="name another file with --output, or remove this one",
                )
        if complete < path.stat().st_size:
            os.truncate(path, complete)

    def missing(self, state_keys: Sequence[str], methods: Iterable[str]) -> list[str]:
        """The methods that have not got a row for each of these states."""
        there = {(row.state_key, row.method) for row in self.rows}
        return [name for name in methods if any((key, name) not in there for key in state_keys)]

    def describe(self, notes: Iterable[MethodNote]) -> None:
        """Keep what is to be known about methods; nothing is written where nothing is new."""
        new = {note.name: note for note in notes if self.notes.get(note.name) != note}
        self._append([note._asdict() for note in new.values()])
        self.notes |= new

    def add(self, rows: Sequence[Replayed]) -> None:
        """What is there already stays as it is."""
        there = {(row.state_key, row.method) for row in self.rows}
        new = [row for row in rows if (row.state_key, row.method) not in there]
        self._append([row._asdict() for row in new])
        self.rows += new

    def _append(self, values: list[dict[str, Any]]) -> None:
        lines = values if self.path.exists() else [self._about, *values]
        with self.path.open("ab") as file:
            file.write(b"".join(json.dumps(value).encode() + b"\n" for value in lines))
            file.flush()
            os.fsync(file.fileno())


def read_replay(path: Path) -> Replay:
    """Everything in a file."""
    if not path.exists():
        raise InputError("there is no replay here", where=str(path), hint="drsr evaluate --replay makes one")
    return _read(path)[0]


def _read(path: Path) -> tuple[Replay, int]:
    """What the complete lines hold, and how many bytes these are."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    complete = data.rfind(b"\n") + 1
    lines = data[:complete].splitlines()
    try:
        about: About = json.loads(lines[0])
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
        values = [json.loads(line) for line in lines[1:]]
        notes = [_note(value) for value in values if "state_key" not in value]
        rows = [_row(value) for value in values if "state_key" in value]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ArtifactCorrupt(f"is no replay: {error}", where=str(path), hint="remove it and replay again") from None
    return Replay(about, {note.name: note for note in notes}, rows), complete


def _note(value: dict[str, Any]) -> MethodNote:
    return MethodNote(**{**value, "keeps": tuple(value["keeps"]), "assumptions": tuple(value["assumptions"])})


def _row(value: dict[str, Any]) -> Replayed:
    return Replayed(**{**value, "lost": tuple(value["lost"])})
