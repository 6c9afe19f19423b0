"""Runs whose task nobody names stay on the side of the run that they nearly equal, or that begins as they do.

    messages up to the second with calls, or the third answer -> a hash -> the run that begins with the same
    text -> its head and its tail -> shingles -> the 64 smallest hashes -> runs that share one of the 8 smallest
         -> estimated Jaccard index of at least 0.8: the nearest one's group, or at least its split

The first finds a run that was exported once more as it grew, where its format gives it another name in another place:
all that a user said, two calls and their results are the same. A new attempt at a task hardly begins like that, and
belongs into the same group if it does.

A copy of a run under another name would otherwise fall into any split, and the rule against near-duplicates across
splits would end every night until somebody withdraws it. A task that is named is trusted, and is left where it is. The
rule has the last word: it compares whole texts, and all of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.near_duplicates import THRESHOLD, Shingles, jaccard, shingles, strings_in, texts_of
from drsr.offline.ingest.splits import Split
from drsr.offline.ingest.trajectories import Json, Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, readings

_KEPT, _LOOKED_UP = 64, 8
"""Hashes of a run that are held, and of these the ones that runs are found by."""
_MOST_FOUND = 512
"""Runs that one hash finds. More have a form in common, and looking at all of them would cost their square."""
_CHARACTERS = 16_000
"""Of the head and of the tail of a long text: a form that all runs begin with does not make them alike."""
_MOST_COMPARED = 16
_CALLS, _ANSWERS = 2, 3
"""Messages of the assistant that are enough of a beginning, behind any demonstration: with calls, or of any kind."""
_NO_OPENING = 0


class Neighbour(NamedTuple):
    """The group and split of a run that is nearly the same."""

    group_key: str
    split: Split


class Sketch(NamedTuple):
    """What a run is compared by."""

    opening: int
    """Hash of its beginning; 0 if it is too short to have one."""
    smallest: Shingles
    """The smallest hashes of its text, in order."""


class Neighbours:
    """The runs of a catalog and those read since. The catalog is read when the first run is looked up."""

    def __init__(self, catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None = None) -> None:
        self._catalog = catalog
        self._artifacts = artifacts
        self._kept = kept
        self._runs: list[tuple[Shingles, Neighbour]] | None = None
        self._found_by: dict[int, list[int]] = {}
        self._begun: dict[int, Neighbour] = {}

    def nearest(self, sketch: Sketch) -> Neighbour | None:
        """Return the run that begins the same, or else the most similar one; None if no run is nearly the same."""
        runs = self._read() if self._runs is None else self._runs
        if sketch.opening in self._begun:
            return self._begun[sketch.opening]
        smallest = sketch.smallest
        votes = Counter(row for rows in self._found_with(smallest) for row in rows)
        likeness = [(_likeness(smallest, runs[row][0]), -row) for row, _ in votes.most_common(_MOST_COMPARED)]
        best, row = max(likeness, default=(0.0, 0))
        return runs[-row][1] if best >= THRESHOLD else None

    def _found_with(self, smallest: Shingles) -> list[Sequence[int]]:
        """Return the runs that share each of a text's hashes; those of a form only if it shares no others."""
        found: list[Sequence[int]] = [self._found_by.get(value, ()) for value in smallest[:_LOOKED_UP].tolist()]
        rare = [rows for rows in found if 0 < len(rows) < _MOST_FOUND]
        return rare or found

    def add(self, sketch: Sketch, place: Neighbour) -> None:
        """Let later runs find this one."""
        runs = self._read() if self._runs is None else self._runs
        if sketch.opening != _NO_OPENING:
            self._begun.setdefault(sketch.opening, place)
        for value in sketch.smallest[:_LOOKED_UP].tolist():
            found = self._found_by.setdefault(value, [])
            if len(found) < _MOST_FOUND:
                found.append(len(runs))
        runs.append((sketch.smallest, place))

    def _read(self) -> list[tuple[Shingles, Neighbour]]:
        self._runs = []
        columns = (TrajectoryRow.blob, TrajectoryRow.group_key, TrajectoryRow.split)
        query = select(*columns).where(TrajectoryRow.is_current(), TrajectoryRow.has_text()).order_by(TrajectoryRow.id)
        with self._catalog.reading() as connection:
            rows = connection.execute(query).all()
        lost = self._artifacts.missing(row.blob for row in rows)
        blobs = {bytes_named(row.blob): row.blob for row in rows if row.blob not in lost}
        question = "opening and sketch of a run's text"
        read = readings(self._artifacts, self._kept, question, blobs, lambda _, data: _stored(data))
        for row in rows:
            if row.blob not in lost:
                opening, *_ = sketch = np.frombuffer(read[bytes_named(row.blob)], dtype="<u8").astype(np.uint64)
                self.add(Sketch(int(opening), sketch[1:]), Neighbour(row.group_key, row.split))
        return self._runs


def sketch_of(trajectory: Trajectory) -> Sketch:
    """Return what a run is compared by."""
    return Sketch(_opening(trajectory), shingles(_ends(texts_of(trajectory)))[:_KEPT])  # sorted and distinct


def _opening(trajectory: Trajectory) -> int:
    """Hash what was said until then, of a long text its length and its head."""
    calls = answers = 0
    digest = hashlib.sha256()
    for message in ({"content": trajectory.request.get("system")}, *trajectory.request["messages"]):
        for text in (str(message.get("role")), *strings_in(message)):
            digest.update(f"{len(text)} ".encode() + text[:_CHARACTERS].encode(errors="replace"))
        if message.get("role") == "assistant" and message.get("is_demo") is not True:
            answers, calls = answers + 1, calls + _makes_calls(message)
            if calls == _CALLS or answers == _ANSWERS:
                return int.from_bytes(digest.digest()[:8], "big")
    return _NO_OPENING


def _makes_calls(message: Json) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return bool(message.get("tool_calls")) or any(block.get("type") == "tool_use" for block in blocks)


def _ends(texts: Sequence[str]) -> str:
    """Return texts on separate lines; of a long whole only its head and its tail, so that the whole is never made."""
    if sum(map(len, texts)) + len(texts) - 1 <= 2 * _CHARACTERS:
        return "\n".join(texts)
    tail = _beginning(text[: -_CHARACTERS - 1 : -1] for text in reversed(texts))[::-1]
    return f"{_beginning(texts)}\n{tail}"


def _beginning(texts: Iterable[str]) -> str:
    found, length = [], 0
    for text in texts:
        found.append(text[:_CHARACTERS])
        length += len(found[-1]) + 1
        if length > _CHARACTERS:
            break
    return "\n".join(found)[:_CHARACTERS]


def _stored(data: bytes) -> bytes:
    sketch = sketch_of(Trajectory.from_json(data))
    return np.array([sketch.opening, *sketch.smallest.tolist()], dtype="<u8").tobytes()


def _likeness(first: Shingles, second: Shingles) -> float:
    """Estimate the Jaccard index of two texts, exactly where both are short."""
    if len(first) < _KEPT and len(second) < _KEPT:
        return jaccard(first, second)
    smallest = np.union1d(first, second)[:_KEPT]
    common = np.intersect1d(np.intersect1d(smallest, first), second)
    return len(common) / len(smallest) if len(smallest) else 0.0
