"""Trajectories in different splits that say nearly the same: what a stable hash cannot see, and an audit must.

    text -> shingles (five words in a row) -> MinHash signature -> bands -> pairs that share a band -> exact Jaccard

Two trajectories whose shingles overlap by a Jaccard index of 0.8 share one of the 25 bands with probability 0.99995.
The cost is linear in the number of trajectories, also where thousands are alike: of a band's bucket, at most
`REPRESENTATIVES` of each split are compared with the others, so every trajectory in it is still compared.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, readings

if TYPE_CHECKING:
    from datasketch import MinHash

THRESHOLD = 0.8
"""Jaccard index of the shingle sets from which on two trajectories are near-duplicates."""
REPRESENTATIVES = 8
_WORDS_PER_SHINGLE = 5
_BANDS, _ROWS_PER_BAND = 25, 5
ODD = 0x9E3779B97F4A7C15
WORD = re.compile(r"\w+")
_NOT_TEXT = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "signature"})
_SHARED_ROLES = frozenset({"system", "developer"})

Key = TypeVar("Key")
Shingles = NDArray[np.uint64]


class NearDuplicate(NamedTuple, Generic[Key]):
    """Two trajectories of different splits."""

    first: Key
    second: Key
    jaccard: float
    """Of their shingle sets, exact: 1.0 is the same text."""


class LeakedPair(NamedTuple):
    """Two current trajectories of different splits that say nearly the same, for people."""

    first: str
    """`source/external id`."""
    first_split: str
    second: str
    second_split: str
    jaccard: float

    @property
    def told(self) -> str:
        """Say what they share."""
        return f"Jaccard index {self.jaccard:.2f}"


def leaked_pairs(
    catalog: Catalog, artifacts: ArtifactStore, threshold: float = THRESHOLD, kept: Kept | None = None
) -> list[LeakedPair]:
    """Return the near-duplicates across splits among a catalog's current trajectories, most alike first.

    One trajectory is in memory at a time; what grows with their number are signatures of 1 KB. With `kept` only those
    that have no signature yet are read, and pairs that may be alike.
    """
    rows = runs_with_text(catalog)
    blobs = {bytes_named(row.blob): row.blob for row in rows.values()}
    signed = readings(artifacts, kept, "signature of a run's text", blobs, lambda _, data: _signed(data))
    pairs = near_duplicates(
        {row_id: row.split for row_id, row in rows.items()},
        lambda row_id: text_of(Trajectory.from_json(artifacts.get(rows[row_id].blob))),
        threshold,
        lambda row_id: np.frombuffer(signed[bytes_named(rows[row_id].blob)], dtype="<u8"),
    )
    return [
        LeakedPair(rows[first].name, rows[first].split, rows[second].name, rows[second].split, similarity)
        for first, second, similarity in pairs
    ]


class RunWithText(NamedTuple):
    """A current run whose text is here."""

    id: int
    name: str
    """`source/external id`."""
    split: str
    blob: str


def runs_with_text(catalog: Catalog) -> dict[int, RunWithText]:
    """Return the current runs whose text is here, by row, in the order of their names."""
    columns = (TrajectoryRow.id, Source.name, TrajectoryRow.external_id, TrajectoryRow.split, TrajectoryRow.blob)
    query = (
        select(*columns)
        .join(Source, Source.id == TrajectoryRow.source_id)
        .where(TrajectoryRow.is_current(), TrajectoryRow.has_text())
        .order_by(Source.name, TrajectoryRow.external_id)
    )
    with catalog.reading() as connection:
        found = connection.execute(query).all()
    return {number: RunWithText(number, f"{source}/{name}", split, blob) for number, source, name, split, blob in found}


def _signed(data: bytes) -> bytes:
    """The signature of a stored trajectory."""
    return _signature(shingles(text_of(Trajectory.from_json(data)))).astype("<u8").tobytes()


def near_duplicates(
    splits: Mapping[Key, str],
    text: Callable[[Key], str],
    threshold: float = THRESHOLD,
    signature: Callable[[Key], NDArray[np.uint64]] | None = None,
) -> list[NearDuplicate[Key]]:
    """Return the pairs across splits that are alike, most alike first. `text` is called once or twice for each key, or
    where `signature` is known only for those that may be alike."""
    keys = list(splits)
    signed = signature or (lambda key: _signature(shingles(text(key))))
    signatures = np.stack([signed(key) for key in keys]) if keys else np.empty((0, 0))
    shingles_of = lru_cache(maxsize=1_000)(lambda index: shingles(text(keys[index])))
    found = []
    # By the later one: representatives are early ones, and stay in the cache while the others pass by once.
    for first, second in sorted(_candidates(signatures, [splits[key] for key in keys]), key=lambda pair: pair[::-1]):
        similarity = jaccard(shingles_of(first), shingles_of(second))
        if similarity >= threshold:
            found.append(NearDuplicate(keys[first], keys[second], similarity))
    return sorted(found, key=lambda pair: -pair.jaccard)


def text_of(trajectory: Trajectory) -> str:
    """Return everything said in a trajectory but the instructions, which all runs of an agent share."""
    return "\n".join(texts_of(trajectory))


def texts_of(trajectory: Trajectory) -> list[str]:
    """Return the same, text by text."""
    messages = trajectory.request["messages"]
    return [text for message in messages if message["role"] not in _SHARED_ROLES for text in strings_in(message)]


def shingles(text: str) -> Shingles:
    """Return the distinct runs of five words, as sorted hashes. A shorter text is one shingle, an empty one has
    none."""
    return np.unique(shingles_in_order(text))


def shingles_in_order(text: str) -> Shingles:
    """Return the same as they come, each as often as it comes."""
    words = np.array([zlib.crc32(word.encode("utf-8", "replace")) for word in WORD.findall(text)], dtype=np.uint64)
    if len(words) == 0:
        return words
    width = min(_WORDS_PER_SHINGLE, len(words))
    hashes = np.zeros(len(words) - width + 1, dtype=np.uint64)
    for offset in range(width):
        # A polynomial in an odd base modulo 2**64: the order of the words counts.
        hashes = hashes * np.uint64(ODD) + words[offset : offset + len(hashes)]
    return hashes


def jaccard(first: Shingles, second: Shingles) -> float:
    """Size of the intersection over size of the union; 0 where both are empty."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    union = len(first) + len(second) - common
    return common / union if union else 0.0


def strings_in(value: Any) -> Iterator[str]:
    """Yield what is said in a message, in the order in which it is stored."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)
    elif isinstance(value, dict):
        for name in sorted(value):  # as they are stored, so that a run reads the same before and after
            if name not in _NOT_TEXT:
                yield from strings_in(value[name])


@cache
def _empty() -> MinHash:
    from datasketch import MinHash  # half a second of imports, and most programs look for no copies

    return MinHash(num_perm=_BANDS * _ROWS_PER_BAND, seed=1, hashfunc=int)


def _signature(of: Shingles) -> NDArray[np.uint64]:
    sketch = _empty().copy()
    sketch.update_batch((of >> np.uint64(32)).tolist())
    return np.asarray(sketch.hashvalues, dtype=np.uint64)


def _candidates(signatures: NDArray[Any], splits: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs of row numbers, the smaller first, of different splits, that agree in a whole band."""
    pairs: set[tuple[int, int]] = set()
    for start in range(0, signatures.shape[1], _ROWS_PER_BAND):
        whole = np.zeros(len(signatures), dtype=np.uint64)  # one number for a band: two that agree share it
        for row in signatures[:, start : start + _ROWS_PER_BAND].T:
            whole = whole * np.uint64(ODD) + row
        _, bucket_of = np.unique(whole, return_inverse=True)
        order = np.argsort(bucket_of, kind="stable")
        edges = np.flatnonzero(np.diff(bucket_of[order])) + 1
        for bucket in np.split(order, edges):
            if len(bucket) > 1:
                pairs.update(_across_splits(bucket.tolist(), splits))
    return pairs


def _across_splits(bucket: Sequence[int], splits: Sequence[str]) -> Iterator[tuple[int, int]]:
    by_split: dict[str, list[int]] = {}
    for row in bucket:
        by_split.setdefault(splits[row], []).append(row)
    for some, others in combinations(by_split.values(), 2):
        for row, other in _all_with_representatives(some, others):
            yield min(row, other), max(row, other)


def _all_with_representatives(some: Sequence[int], others: Sequence[int]) -> Iterator[tuple[int, int]]:
    for row in some:
        for other in others[:REPRESENTATIVES]:
            yield row, other
    for other in others:
        for row in some[:REPRESENTATIVES]:
            yield row, other
