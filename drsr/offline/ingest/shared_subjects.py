"""Groups in different splits that are about the same thing, found from what was said and not from what tasks are named.

Near-duplicates (`near_duplicates.py`) say nearly the same. Two tasks of one customer, or runs of one task by different
agents, say different things about the same orders. They are found by

- identifiers: words with three digits or more that a call asks for and a result answers with (order numbers, user ids,
  IBANs, not dates). Rare ones occur in at most `RARE` groups. Groups that share `SHARED` of them, and at least
  `CONTAINED` of the rare ones of either, have one subject;
- the opening: the same first words of the user, if there are `OPENING` of them; with fewer, the same first call too.
  An opening of more than `COMMON` groups is a form that many tasks are put in: there the first call and what came back
  must be the same as well.

The cost is linear in the number of trajectories: an identifier in more than `RARE` groups joins nothing.

Measured on 5,528 public runs of tau-bench, tau2-bench, AgentDojo, InterCode, AutoPenBench, SWE-bench and others, which
take 1.4 ms each. With tasks as their readers name them 264 pairs of groups are found across the hash's splits, nearly
all of them customers of both tau benchmarks; with AgentDojo's tasks left out, 27 pairs of its runs. With the groups of
corpora/public/tasks.csv none is found across the hash's splits, and 2 pairs among all 1,629 groups: two tasks on the
profile of one AgentDojo user, and two on one network of AutoPenBench. Two identifiers instead of three find 26 pairs,
16 groups instead of twelve 18: tasks that merely share a data base.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.trajectories import Json, Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept, bytes_named, readings

RARE = 12
"""Groups in which an identifier may occur; fewer where there are few groups, see `rare_below`."""
COMMON = 50
"""Groups that may share an opening by being about one task."""
SHARED = 3
CONTAINED = 0.5
OPENING, SHORT_OPENING = 12, 4
"""Words of an opening that suffices alone, and of an opening that suffices together with the same first call."""

_IDENTIFIER = re.compile(r"#?\w+(?:[-@.]\w+)*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_SHORTEST, _DIGITS = 5, 3
_WORD = re.compile(r"\w+")


class Subject(NamedTuple):
    """The subject of a run, as far as its texts show it."""

    identifiers: frozenset[str]
    opening: str
    """The user's first words, and where they are few the first call; empty where that names no task."""
    start: str = ""
    """The first call, and a hash of what came back."""


class PlacedRun(NamedTuple):
    name: str
    """`source/external id`."""
    group: str
    split: str
    subject: Subject


class SharedSubject(NamedTuple):
    """Two groups of different splits about the same thing, by a run of each."""

    first: str
    first_split: str
    second: str
    second_split: str
    shared: str
    """Some of the identifiers, or the opening, for people."""


def subjects_on_two_sides(catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None = None) -> list[SharedSubject]:
    """Find the shared subjects of a catalog's current trajectories, which are read one at a time.

    With `kept` only those are read whose subject is not kept yet. What is kept are hashes of its words: where they show
    a pair, all runs are read after all, to say in words what is shared.
    """
    columns = (Source.name, TrajectoryRow.external_id, TrajectoryRow.group_key, TrajectoryRow.split, TrajectoryRow.blob)
    query = select(*columns).join(Source, Source.id == TrajectoryRow.source_id)
    query = query.where(TrajectoryRow.is_current(), TrajectoryRow.has_text())
    with catalog.reading() as connection:
        rows = connection.execute(query.order_by(Source.name, TrajectoryRow.external_id)).all()

    def placed(subject: Callable[[str], Subject]) -> Iterator[PlacedRun]:
        for source, external_id, group, split, blob in rows:
            yield PlacedRun(f"{source}/{external_id}", group, split, subject(blob))

    if kept is not None:
        blobs = {bytes_named(row.blob): row.blob for row in rows}
        hashed = readings(artifacts, kept, "hashes of a run's subject", blobs, lambda _, data: kept_subject(data))
        if not shared_subjects(placed(lambda blob: read_kept_subject(hashed[bytes_named(blob)]))):
            return []
    return shared_subjects(placed(lambda blob: subject_of(Trajectory.from_json(artifacts.get(blob)))))


_HASH = 16
"""Bytes of a kept hash: two words with one hash are not to be expected among 10**15."""


def kept_subject(data: bytes) -> bytes:
    """Return the subject of a stored trajectory without its words: hashes of opening, start and each identifier."""
    subject = subject_of(Trajectory.from_json(data))
    ways = [_hash(said) if said else bytes(_HASH) for said in (subject.opening, subject.start)]
    return b"".join([*ways, *map(_hash, sorted(subject.identifiers))])


def _hash(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=_HASH).digest()


def read_kept_subject(hashed: bytes) -> Subject:
    """Return the same as a subject, in hashes instead of words."""
    opening, start, *identifiers = (hashed[place : place + _HASH].hex() for place in range(0, len(hashed), _HASH))
    said = (way if way.strip("0") else "" for way in (opening, start))
    return Subject(frozenset(identifiers), *said)


def shared_subjects(runs: Iterable[PlacedRun]) -> list[SharedSubject]:
    """Return the pairs of groups in different splits that share their subject, ordered by name."""
    identifiers: defaultdict[str, set[str]] = defaultdict(set)
    openings: defaultdict[str, _Opened] = defaultdict(_Opened)
    first: dict[str, PlacedRun] = {}
    for run in runs:
        first.setdefault(run.group, run)
        identifiers[run.group] |= run.subject.identifiers
        if run.subject.opening:
            openings[run.subject.opening].add(run)
    found = {(one.group, other.group): opening for opening, one, other in _opened_alike(openings)}
    for (one, other), common in _sharing(identifiers).items():
        if first[one].split != first[other].split:
            found.setdefault((one, other), ", ".join(sorted(common)[:5]))
    pairs = ((first[one], first[other], shared) for (one, other), shared in found.items())
    return sorted(SharedSubject(one.name, one.split, other.name, other.split, shared) for one, other, shared in pairs)


def subject_of(trajectory: Trajectory) -> Subject:
    """Return what a run is about. Demonstrations, which many runs share, do not count."""
    messages = [message for message in trajectory.request["messages"] if not message.get("is_demo")]
    calls = [call for message in messages for call in _calls(message)]
    asked = {name for _, arguments in calls for name in _identifiers(arguments)}
    answered = {name for message in messages for result in _results(message) for name in _identifiers(result)}
    words = _WORD.findall(_first_request(messages).lower())
    opening = " ".join(words)
    start = ""
    if calls:
        answer = next((result for message in messages for result in _results(message)), "")
        start = f"{' '.join(calls[0])} {zlib.crc32(answer.encode('utf-8', 'replace')):08x}"
    if len(words) < OPENING:
        opening = f"{opening}: {' '.join(calls[0])}" if len(words) >= SHORT_OPENING and calls else ""
    return Subject(frozenset(asked & answered), opening, start)


def rare_below(groups: int) -> int:
    """Return in how many groups an identifier may occur: a twentieth of them, or four; of very few groups a third."""
    return max(2, min(RARE, max(4, groups // 20), groups // 3))


class _Opened:
    """The runs that open alike: the first of every split, and the same for every way to go on."""

    def __init__(self) -> None:
        self._groups: set[str] = set()  # no more than tell whether there are too many
        self._by_start: dict[str, dict[str, PlacedRun]] = {}

    def add(self, run: PlacedRun) -> None:
        if len(self._groups) <= COMMON:
            self._groups.add(run.group)
        self._by_start.setdefault(run.subject.start, {}).setdefault(run.split, run)

    def alike(self) -> Iterator[dict[str, PlacedRun]]:
        """Yield runs about one task, one of every split."""
        if len(self._groups) > COMMON:
            yield from (by_split for start, by_split in self._by_start.items() if start)
            return
        first: dict[str, PlacedRun] = {}
        for by_split in self._by_start.values():
            first = by_split | first
        yield first


def _opened_alike(openings: dict[str, _Opened]) -> Iterator[tuple[str, PlacedRun, PlacedRun]]:
    for opening, opened in openings.items():
        for by_split in opened.alike():
            for one, other in combinations(sorted(by_split.values(), key=lambda run: run.group), 2):
                yield opening[:80], one, other


def _sharing(identifiers: dict[str, set[str]]) -> dict[tuple[str, str], set[str]]:
    """Return the pairs of groups that have enough rare identifiers in common, with these."""
    groups_of: defaultdict[str, list[str]] = defaultdict(list)
    for group, names in identifiers.items():
        for name in names:
            groups_of[name].append(group)
    most = rare_below(len(identifiers))
    rare: defaultdict[str, int] = defaultdict(int)
    common: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for name, groups in groups_of.items():
        if len(groups) > most:
            continue
        for group in groups:
            rare[group] += 1
        for one, other in combinations(sorted(groups), 2):
            common[one, other].add(name)
    return {
        (one, other): names
        for (one, other), names in common.items()
        if len(names) >= max(SHARED, CONTAINED * min(rare[one], rare[other]))
    }


def _identifiers(text: str) -> Iterator[str]:
    for match in _IDENTIFIER.finditer(text):
        word = match[0].lower()
        if len(word) >= _SHORTEST and sum(map(str.isdigit, word)) >= _DIGITS and not _DATE.match(word):
            yield word


def _calls(message: Json) -> Iterator[tuple[str, str]]:
    """Yield the tool and the arguments of every call, in either wire form."""
    if message["role"] != "assistant":
        return
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"], _text(call["function"]["arguments"])
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            yield block["name"], _text(block["input"])


def _results(message: Json) -> Iterator[str]:
    if message["role"] == "tool":
        yield _said(message["content"])
    for block in _blocks(message):
        if block.get("type") == "tool_result":
            yield _said(block.get("content"))


def _first_request(messages: list[Json]) -> str:
    return next((_said(message["content"]) for message in messages if message["role"] == "user"), "")


def _blocks(message: Json) -> list[Any]:
    content = message["content"]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _said(content: Any) -> str:
    """Return the texts of a message's content: one, or one per part."""
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)
    return content or ""


def _text(value: Any) -> str:
    """Return every text and number inside a value, one per line."""
    if isinstance(value, dict):
        return "\n".join(map(_text, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)
