"""The rows of a replay on disk: JSON lines, appended run by run, so that a replay that was stopped goes on.

    {"format": "drsr replay/1", "split": ..., "labeler": ..., "summariser": ..., "policy": ...}
    {"run": ..., "state_key": ..., "method": ..., ...}        one per decision and method

The first line says what the rows depend on; rows that depend on something else are refused, never mixed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.evaluation.replay import Replayed

FORMAT = "drsr replay/1"
About = dict[str, Any]
"""What the rows depend on, as JSON values."""


class ReplayFile:
    """One replay. Opening it reads what is there and cuts off a line that was not written to its end."""

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        expected = {"format": FORMAT, **about}
        self.rows: list[Replayed] = []
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _append(path, [expected])
            return
        found, self.rows, complete = _read(path)
        for name in sorted(expected.keys() | found.keys()):
            if found.get(name) != expected.get(name):
                raise InputError(
                    f"was made with {name} {found.get(name)!r}, this replay has {expected.get(name)!r}",
                    where=str(path),
                    hint="name another file with --output, or remove this one",
                )
        if complete < path.stat().st_size:
            os.truncate(path, complete)

    def missing(self, state_keys: Sequence[str], methods: Iterable[str]) -> list[str]:
        """The methods that have not got a row for each of these states."""
        there = {(row.state_key, row.method) for row in self.rows}
        return [name for name in methods if any((key, name) not in there for key in state_keys)]

    def add(self, rows: Sequence[Replayed]) -> None:
        """What is there already stays as it is."""
        there = {(row.state_key, row.method) for row in self.rows}
        new = [row for row in rows if (row.state_key, row.method) not in there]
        _append(self.path, [row._asdict() for row in new])
        self.rows += new


def read_replay(path: Path) -> tuple[About, list[Replayed]]:
    """What a file's rows depend on, and the rows."""
    if not path.exists():
        raise InputError("there is no replay here", where=str(path), hint="drsr evaluate --replay makes one")
    about, rows, _ = _read(path)
    return about, rows


def _read(path: Path) -> tuple[About, list[Replayed], int]:
    """Header, rows, and how many bytes hold complete lines."""
    data = path.read_bytes()
    complete = data.rfind(b"\n") + 1
    lines = data[:complete].splitlines()
    try:
        about: About = json.loads(lines[0])
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
        rows = [_row(json.loads(line)) for line in lines[1:]]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ArtifactCorrupt(f"is no replay: {error}", where=str(path), hint="remove it and replay again") from None
    return about, rows, complete


def _row(value: dict[str, Any]) -> Replayed:
    return Replayed(**{**value, "lost": tuple(value["lost"])})


def _append(path: Path, values: Sequence[dict[str, Any]]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(json.dumps(value).encode() + b"\n" for value in values))
        file.flush()
        os.fsync(file.fileno())
