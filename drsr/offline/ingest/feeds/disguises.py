"""Copies in disguise: runs of different splits of which one says what the other says, in other numbers or letters.

    words, case folded, every one with a digit the same -> shingles -> a fixed part of the agent's own as a sketch
         -> runs that share one of a run's rarest -> the share of the agent's words, and how evenly all words are shared

The rule against near-duplicates compares whole texts as they are. Another case, other numbers or ids, one word in eight
replaced, or half of another run appended is enough to pass it. Here words are compared without case and numbers, and by
how much of the shorter run the longer one holds. Runs of one environment share what it prints, often nine tenths of
a run; what tells runs apart is what the agent says itself, of which two runs of different tasks share less than half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.near_duplicates import (
    ODD,
    REPRESENTATIVES,
    WORD,
    Key,
    Shingles,
    runs_with_text,
    shingles_in_order,
    strings_in,
    text_of,
)
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, readings

COPIED = 0.7
"""Share of the agent's own shingles, from which on a run is a copy. 731 public runs reach 0.67 across splits in twelve
shingles, and 0.51 in a hundred and more."""
EVENLY = 0.9
"""Share of the pieces of a run, and of the agent's part of it, that are shared in part. A copy with words replaced here
and there has something in common with the original everywhere; an environment shares all of some pieces."""
_PIECE, _SHARED_PART = 40, 0.2
"""Shingles to a piece, and the share of them from which on it counts as shared in part."""
_AT_LEAST = 0.3
"""Share of the agent's shingles of a copy with words replaced: one word in eight leaves 0.375 and more."""
_FEWEST = 10
"""Of the agent's shingles: fewer say nothing. For pieces it takes two whole ones."""
_SAMPLED = 4
"""One of so many shingles is in a sketch, the same in every run."""
_LOOKED_UP = 32
"""So many of a run's rarest shingles, and so many of any kind, are what others are found by: it shares the rarest with
one copy, but not with a hundred."""
_WORTH_READING = 0.1
"""Share of a sketch, from which on two runs are read and compared."""


class Said(NamedTuple):
    """The masked shingles of a run, each where it comes first."""

    whole: Shingles
    agent: Shingles


class Disguised(NamedTuple, Generic[Key]):
    """Two runs of different splits; the second holds the first."""

    first: Key
    second: Key
    agent: float
    """Share of the first agent's shingles that the second run holds."""
    pieces: float
    """Share of the first run's pieces that the second run holds something of."""

    @property
    def told(self) -> str:
        """Say what they share."""
        if self.agent >= COPIED:
            return f"{self.agent:.0%} of what the agent says, case and numbers aside"
        spread = f"spread over {self.pieces:.0%} of the run as if words were replaced"
        return f"{self.agent:.0%} of what the agent says, {spread}"


class DisguisedPair(NamedTuple):
    """Two current runs of different splits of which one is a copy of the other in disguise, for people."""

    first: str
    """`source/external id`."""
    first_split: str
    second: str
    second_split: str
    told: str
    """Description of what they share."""


def disguised_pairs(catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None = None) -> list[DisguisedPair]:
    """Return the copies in disguise across splits among a catalog's current runs, most alike first.

    With `kept` only runs that have no sketch yet are read, and pairs that may be alike.
    """
    rows = runs_with_text(catalog)
    blobs = {bytes_named(row.blob): row.blob for row in rows.values()}
    read = readings(artifacts, kept, "sketch of an agent's words", blobs, lambda _, data: _stored(data))
    pairs = copies_in_disguise(
        {number: row.split for number, row in rows.items()},
        {number: np.frombuffer(read[bytes_named(row.blob)], "<u8").astype(np.uint64) for number, row in rows.items()},
        lambda number: said_in(Trajectory.from_json(artifacts.get(rows[number].blob))),
    )
    sides = [(rows[pair.first], rows[pair.second], pair.told) for pair in pairs]
    return [DisguisedPair(one.name, one.split, other.name, other.split, told) for one, other, told in sides]


def _stored(data: bytes) -> bytes:
    return agent_sketch(Trajectory.from_json(data)).astype("<u8").tobytes()


def masked(text: str) -> str:
    """Return the words of a text, case folded, every word with a digit as `0`."""
    return " ".join("0" if any(map(str.isdigit, word)) else word for word in WORD.findall(text.casefold()))


def said_in(trajectory: Trajectory) -> Said:
    messages = trajectory.request["messages"]
    agent = "\n".join(text for message in messages if message["role"] == "assistant" for text in strings_in(message))
    return Said(_firsts(shingles_in_order(masked(text_of(trajectory)))), _firsts(shingles_in_order(masked(agent))))


def agent_sketch(trajectory: Trajectory) -> Shingles:
    """Return a fixed part of the agent's shingles, sorted. What sketches share, the agents share in proportion."""
    return sampled(np.unique(said_in(trajectory).agent))


def folded_sketch(text: str) -> Shingles:
    """Return the same of a whole text."""
    return sampled(np.unique(shingles_in_order(masked(text))))


def sampled(found: Shingles) -> Shingles:
    """Return the shingles that are in a sketch."""
    kept: Shingles = found[(found * np.uint64(ODD)) >> np.uint64(32) & np.uint64(_SAMPLED - 1) == 0]
    return kept


def copies_in_disguise(
    splits: Mapping[Key, str], sketches: Mapping[Key, Shingles], said: Callable[[Key], Said]
) -> list[Disguised[Key]]:
    """Return the pairs across splits that are copies, the most alike first. `said` is asked for pairs whose sketches
    have something in common.

    The cost is linear in the number of runs: each is looked up by a few shingles, and of the runs that hold one of
    these, a few of each other split are compared.
    """
    keys = [key for key in splits if len(sketches[key])]
    read = lru_cache(maxsize=1_000)(said)
    found = []
    for first, second in sorted(_candidates(keys, splits, sketches), key=lambda pair: pair[::-1]):
        one, other = sketches[keys[first]], sketches[keys[second]]
        common = len(np.intersect1d(one, other, assume_unique=True))
        if common >= _WORTH_READING * min(len(one), len(other)):
            pair = compare(keys[first], keys[second], read(keys[first]), read(keys[second]))
            if is_copy(pair, min(len(read(keys[first]).agent), len(read(keys[second]).agent))):
                found.append(pair)
    return sorted(found, key=lambda pair: (-pair.agent, -pair.pieces))


def compare(first: Key, second: Key, one: Said, other: Said) -> Disguised[Key]:
    """Return how much the longer of two runs holds of the shorter one, which comes first."""
    if len(one.whole) > len(other.whole):
        first, second, one, other = second, first, other, one
    agent = np.isin(one.agent, np.union1d(other.whole, other.agent))  # also across what stands between two messages
    pieces = min(_evenness(agent), _evenness(np.isin(one.whole, other.whole)))
    return Disguised(first, second, float(agent.mean()) if len(agent) else 0.0, pieces)


def is_copy(pair: Disguised[Any], agent_shingles: int) -> bool:
    if agent_shingles < _FEWEST:
        return False
    return pair.agent >= COPIED or (pair.pieces >= EVENLY and pair.agent >= _AT_LEAST and agent_shingles >= 2 * _PIECE)


def _evenness(shared: NDArray[np.bool_]) -> float:
    """Return the share of pieces of which some part is shared."""
    pieces = np.array_split(shared, max(1, len(shared) // _PIECE))
    return float(np.mean([piece.mean() >= _SHARED_PART for piece in pieces if len(piece)] or [False]))


def _firsts(found: Shingles) -> Shingles:
    """Return each shingle once, in the order of the text: what a run repeats says nothing more about it."""
    _, places = np.unique(found, return_index=True)
    firsts: Shingles = found[np.sort(places)]
    return firsts


def _candidates(
    keys: Sequence[Key], splits: Mapping[Key, str], sketches: Mapping[Key, Shingles]
) -> set[tuple[int, int]]:
    """Pairs of row numbers, the smaller first, of different splits, that share one of some shingles of one."""
    if not keys:
        return set()
    rows = np.repeat(np.arange(len(keys)), [len(sketches[key]) for key in keys])
    order = np.argsort(np.concatenate([sketches[key] for key in keys]), kind="stable")
    values = np.concatenate([sketches[key] for key in keys])[order]
    edges = np.flatnonzero(np.diff(values)) + 1
    by_row: dict[int, list[tuple[int, dict[str, list[int]]]]] = {}
    for holders in np.split(rows[order], edges):
        if len(holders) > 1:
            sides = {split: list(mine) for split, mine in _by_split(holders.tolist(), lambda row: splits[keys[row]])}
            if len(sides) > 1:
                few = {split: mine[:REPRESENTATIVES] for split, mine in sides.items()}
                for row in holders.tolist():
                    by_row.setdefault(row, []).append((len(holders), few))
    pairs = set()
    for row, held in by_row.items():
        mine = splits[keys[row]]
        rarest = sorted(held, key=lambda each: each[0])[:_LOOKED_UP]
        for _, sides in (*rarest, *held[:_LOOKED_UP]):  # by value, which is as good as any
            for other in (other for split, others in sides.items() if split != mine for other in others):
                pairs.add((min(row, other), max(row, other)))
    return pairs


def _by_split(rows: Sequence[int], split: Callable[[int], str]) -> Iterator[tuple[str, Iterator[int]]]:
    return groupby(sorted(rows, key=lambda row: (split(row), row)), key=split)
