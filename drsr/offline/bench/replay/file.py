"""A replay on disk, appended run by run.

{"format": "drsr replay/4", "drsr": ..., "split": ..., "labeler": ..., "window": ...}
{"name": ..., "title": ..., "version": ..., "left_out": ""}     one per method; a later one replaces it
{"decisions": [state key, ...]}                                 what a report is of; a later one replaces it
{"run": ..., "state_key": ..., "method": ..., "version": ...}   one per decision, method and version of the method

A new policy is a new version of one method: the rows of all others stay good, and its own earlier ones are kept but
neither shown nor mixed with the new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.replay.journal import Journal, Json, Kind, read_journal
from drsr.offline.bench.replay.method_version import version_with
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.summarisers.summariser import Summariser

About = Json
"""Everything that all rows depend on, as JSON values."""


class MethodNote(NamedTuple):
    """Facts about one method other than its numbers."""

    name: str
    title: str
    trained: str = ""
    keeps: tuple[str, ...] = ()
    """Parts of a request that it claims to keep."""
    assumptions: tuple[str, ...] = ()
    """Decisions of ours where its source is silent."""
    version: str = ""
    """Version that counts now: rows of another version are earlier ones."""
    summariser: str = ""
    """Author of its summaries; empty if it needs none."""
    training: str = ""
    """Of DRSR and its ablations: which one they come from."""
    left_out: str = ""
    """Reason why it has no rows; empty if it has."""


def note_of(method: Comparator, summariser: Summariser) -> MethodNote:
    return MethodNote(
        method.name,
        method.title,
        method.trained,
        tuple(sorted(method.keeps)),
        tuple(method.assumptions),
        version_with(method, summariser),
        summariser.name if method.asks else "",
        method.training if isinstance(method, DrsrPolicy) else "",
    )


class Decisions(NamedTuple):
    """The decisions that a report is of: those of the latest run, and of the runs before that are still current."""

    decisions: tuple[str, ...]


Line = MethodNote | Decisions | Replayed


class Replay(NamedTuple):
    """The contents of a file."""

    about: About
    notes: dict[str, MethodNote]
    """Notes by method, including those that were left out."""
    rows: list[Replayed]
    """Rows of all runs and versions."""
    decisions: frozenset[str] | None = None
    """Decisions that a report covers; None if no run restricted them."""

    @property
    def described(self) -> list[MethodNote]:
        """Return the facts about every method that was not left out."""
        return [note for note in self.notes.values() if not note.left_out]

    @property
    def present(self) -> dict[str, str]:
        """The version of every method that was not left out."""
        return {note.name: note.version for note in self.described}

    @property
    def current(self) -> list[Replayed]:
        """The rows that a report is of: its decisions, and every method in its present version."""
        return chosen_rows(self.rows, self.decisions, self.present)

    @property
    def earlier(self) -> dict[str, int]:
        """Return how many rows come from other versions, by title of the method."""
        present = self.present
        return dict(Counter(row.title for row in self.rows if row.version != present.get(row.method, row.version)))

    @property
    def summarisers(self) -> dict[str, list[MethodNote]]:
        """Return who wrote summaries for which methods: a later run may have used another summariser for some of
        them."""
        found: dict[str, list[MethodNote]] = {}
        for note in self.described:
            if note.summariser:
                found.setdefault(note.summariser, []).append(note)
        return found

    @property
    def policy(self) -> str:
        """Identity of the policy; empty if there was none."""
        return self.present.get("drsr", "")


def chosen_rows(
    rows: Iterable[Replayed], decisions: Collection[str] | None, versions: Mapping[str, str]
) -> list[Replayed]:
    """Return the rows of some decisions and of one version of each method, in the order of `versions`."""
    order = {method: place for place, method in enumerate(versions)}
    found = [
        row
        for row in rows
        if versions.get(row.method) == row.version and (decisions is None or row.state_key in decisions)
    ]
    return sorted(found, key=lambda row: order[row.method])


def _line(value: Json) -> Line:
    if "state_key" in value:
        return Replayed(
            **{**value, "lost": tuple(value["lost"]), "claims_broken": tuple(value["claims_broken"])},
        )
    if "decisions" in value:
        return Decisions(tuple(value["decisions"]))
    return MethodNote(**{**value, "keeps": tuple(value["keeps"]), "assumptions": tuple(value["assumptions"])})


REPLAY: Kind[Line] = Kind("drsr replay/4", "replayed decisions", "drsr evaluate --replay", _line)


class ReplayFile(Journal[Line]):
    """One replay."""

    def __init__(self, path: Path, about: About) -> None:
        super().__init__(path, REPLAY, about)
        found = _replay(self.about, self.rows)
        self.notes = found.notes
        self.replayed = found.rows
        self.decisions = found.decisions
        self._there = {_key(row) for row in self.replayed}

    def missing(self, state_keys: Collection[str], versions: Mapping[str, str]) -> list[str]:
        """Return the methods that lack a row of their version for some of these states."""
        return [
            name
            for name, version in versions.items()
            if any((key, name, version) not in self._there for key in state_keys)
        ]

    def describe(self, notes: Iterable[MethodNote], decisions: Iterable[str]) -> None:
        """Record what is to be known about this run's methods, and which decisions a report covers; nothing is written
        if nothing is new."""
        new = {note.name: note for note in notes if self.notes.get(note.name) != note}
        lines: list[Json] = [note._asdict() for note in new.values()]
        wanted = frozenset(decisions)
        if wanted != self.decisions:
            lines.append(Decisions(tuple(sorted(wanted)))._asdict())
        self.append(lines)
        self.notes |= new
        self.decisions = wanted

    def add(self, rows: Sequence[Replayed]) -> None:
        """Add a row, unless it already exists."""
        new = [row for row in rows if _key(row) not in self._there]
        self.append([row._asdict() for row in new])
        self.replayed += new
        self._there |= {_key(row) for row in new}


def read_replay(path: Path) -> Replay:
    """Return everything in a file."""
    return _replay(*read_journal(path, REPLAY))


def _replay(about: About, lines: Sequence[Line]) -> Replay:
    decisions = [frozenset(line.decisions) for line in lines if isinstance(line, Decisions)]
    return Replay(
        about,
        {line.name: line for line in lines if isinstance(line, MethodNote)},
        [line for line in lines if isinstance(line, Replayed)],
        decisions[-1] if decisions else None,
    )


def _key(row: Replayed) -> tuple[str, str, str]:
    return (row.state_key, row.method, row.version)
