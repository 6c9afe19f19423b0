"""No trajectory and no task is on both sides of a split: by the stored trajectories themselves, not by columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import orjson
from sqlalchemy import select

from drsr.errors import DrsrError
from drsr.offline.catalog.statements import among, storable
from drsr.offline.catalog.tables import DecisionState, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest.corpus.task_names import NamedTask, all_task_names
from drsr.offline.ingest.feeds.disguises import agent_sketch, copies_in_disguise, folded_sketch, masked, said_in
from drsr.offline.ingest.near_duplicates import Shingles, strings_in, text_of
from drsr.offline.ingest.splits import ERASED_GROUP, assign_split, group_key
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.publish.subject import Subject
from drsr.offline.store.kept import bytes_named, readings
from drsr.offline.verdicts import SHOWN, Check, Severity, Told, Verdict, failed, first_of, passed, without_texts


class Placed(NamedTuple):
    """A version of a trajectory, and what its own bytes say about it."""

    name: str
    """`source/external id`."""
    version: int
    is_used: bool
    """Whether it is the current version of a run that was not withdrawn, or one that the policy was made from."""
    split: str
    group: str
    """As recorded."""
    own_group: str
    """From its bytes."""
    named: NamedTask | None
    """Its row in the tables of the corpora that are installed here."""
    text: str
    """SHA-256 of what was said in it, instructions left out; empty where nothing was."""
    has_text: bool = True
    """False: it was imported without its bytes, and what they would say is taken from the recorded task."""
    sketch: str = ""
    """Some of its shingles, case folded and numbers masked, in hexadecimal digits."""
    agent: str = ""
    """The same of its agent's words."""
    asked: str = ""
    """SHA-256 of the words of its first message by the user, case folded and numbers masked; empty for a short one."""
    blob: str = ""

    @property
    def named_group(self) -> str:
        """Return the group that a corpus gives the run; without a row, the group that its bytes give."""
        return self.own_group if self.named is None else storable(group_key("", "", self.named.group))


def check_splits(subject: Subject, told: Told) -> list[Verdict]:
    states: list[tuple[int, str]] = []
    unknown = []
    try:
        states = _behind_the_policy(subject)
    except DrsrError as error:
        unknown.append(f"which states are behind the policy cannot be read: {error.what}")
    versions = _read(subject, {trajectory for trajectory, _ in states}, told)
    runs = [version for version in versions if version.is_used]
    problems = [*_misfiled(versions), *_on_both_sides(runs), *_in_disguise(subject, runs), *unknown]
    behind = Counter(split for _, split in states)
    if behind["test"]:
        problems.append(f"{behind['test']} states of the test split are among those that the policy was made from")
    alike = _asked_alike(runs)
    sides = dict(Counter(run.split for run in runs))
    evidence: dict[str, Any] = {"trajectories": sides, "policy_states": dict(behind), "asked alike": alike[:SHOWN]}
    if problems:
        hint = (
            "take the run out on one side (drsr withdraw SOURCE/ID --reason TEXT), train, calibrate and publish again"
        )
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    counts = ", ".join(f"{count:,} {split}" for split, count in sorted(sides.items()))
    groups = len({run.named_group for run in runs})
    said = f"; {len(alike):,} tasks of two splits read alike, for people to judge: {alike[0]}" if alike else ""
    detail = f"{len(runs):,} trajectories of {groups:,} groups, each on one side: {counts}{said}"
    verdict = passed(CHECK, detail, **evidence)
    absent = sum(not run.has_text for run in runs)
    what = f"tasks and words of {absent:,} of {len(runs):,} runs: they are placed by their recorded tasks"
    return without_texts(verdict, what) if absent else verdict


def _behind_the_policy(subject: Subject) -> list[tuple[int, str]]:
    """For every state that the policy was made from: the row of its trajectory, and the split of that now."""
    keys = subject.state_keys
    columns = (TrajectoryRow.id, TrajectoryRow.split)
    query = select(*columns).join(DecisionState, DecisionState.trajectory_id == TrajectoryRow.id)
    with subject.catalog.reading() as connection:
        found = connection.execute(query.where(among(connection, DecisionState.state_key, keys)))
        return [(number, split) for number, split in found]


def _read(subject: Subject, behind: set[int], told: Told) -> list[Placed]:
    """Every version of every trajectory; `behind` are those that the policy was made from."""
    columns = (Source.name, TrajectoryRow.external_id, TrajectoryRow.split, TrajectoryRow.group_key, TrajectoryRow.blob)
    is_current = TrajectoryRow.is_current().label("is_current")
    text_or_task = (TrajectoryRow.has_text().label("has_text"), TrajectoryRow.task)
    query = select(TrajectoryRow.id, TrajectoryRow.version, is_current, *columns, *text_or_task)
    query = query.join(Source, Source.id == TrajectoryRow.source_id).order_by(TrajectoryRow.id)
    with subject.catalog.reading() as connection:
        known = connection.execute(query).all()
    names = all_task_names()
    blobs = {bytes_named(row.blob): row.blob for row in known if row.has_text}
    read = readings(subject.artifacts, subject.kept, "task, text and sketches of a run", blobs, _task_and_text)
    found = []
    for done, (number, version, current, source, external_id, split, group, blob, has_text, task) in enumerate(known):
        told(done, len(known))
        is_used = bool(current) or number in behind
        if has_text:
            task, said, sketch, agent, asked = orjson.loads(read[bytes_named(blob)])
        else:
            said = sketch = agent = asked = ""
        own = storable(group_key(source, external_id, task))
        named = names.find(source, external_id, task)
        if not has_text:
            named = named or names.find_named(source, task)
            if group.startswith(ERASED_GROUP):  # a tombstone: what it was filed under is erased, too
                own, named = group, None
        of = f"{source}/{external_id}"
        place = (of, version, is_used, split, group, own, named)
        found.append(Placed(*place, said, bool(has_text), sketch, agent, asked, blob))
    return found


def _task_and_text(name: str, data: bytes) -> bytes:
    """Return the task that a stored run names and the hash of its messages. Without case and numbers, also: a sketch of
    what it says, one of the agent's words, and the hash of the user's first message."""
    run = Trajectory.from_json(data)
    words = text_of(run)
    text = words.encode("utf-8", "replace")
    sketches = [found.astype("<u8").tobytes().hex() for found in (folded_sketch(words), agent_sketch(run))]
    first: Any = next((message for message in run.request["messages"] if message["role"] == "user"), {})
    asked = masked(" ".join(strings_in(first)))
    asked = hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest() if asked.count(" ") >= _WORDS_OF_A_TASK else ""
    return orjson.dumps([run.task, hashlib.sha256(text).hexdigest() if text else "", *sketches, asked])


_WORDS_OF_A_TASK = 12
"""A shorter first message may be a greeting."""


def _in_disguise(subject: Subject, runs: list[Placed]) -> list[str]:
    """Runs of two splits of which one is a copy of the other, once case is folded and numbers are masked."""
    here = {run.name: run for run in runs if run.has_text}
    pairs = copies_in_disguise(
        {name: run.split for name, run in here.items()},
        {name: _numbers(run.agent) for name, run in here.items()},
        lambda name: said_in(Trajectory.from_json(subject.artifacts.get(here[name].blob))),
    )
    return [
        f"{pair.first} ({here[pair.first].split}) and {pair.second} ({here[pair.second].split}) are one run in "
        f"disguise: they share {pair.told}"
        for pair in pairs
    ]


def _asked_alike(runs: list[Placed]) -> list[str]:
    """Tasks in more than one split whose first message has the same words, case and numbers aside. Reported, not
    judged: some benchmarks ask the same of different files."""
    found: dict[str, dict[str, str]] = {}
    for run in runs:
        if run.asked:
            found.setdefault(run.asked, {}).setdefault(run.split, run.name)
    return [
        " and ".join(f"{name} ({split})" for split, name in sides.items()) for sides in found.values() if len(sides) > 1
    ]


def _misfiled(versions: list[Placed]) -> list[str]:
    """Return the runs whose group or split is neither that of their own bytes, nor that of a corpus, nor that of a run
    beside which ingesting puts them: the run that a fork parted from, or a near-duplicate.

    A run stays in the group of its first version: its later ones may name another task.
    """
    first: dict[str, Placed] = {}
    by_split: dict[str, list[Placed]] = {}
    for version in versions:
        first[version.name] = min(version, first.get(version.name, version), key=lambda found: found.version)
        by_split.setdefault(version.split, []).append(version)
    problems = []
    for run in versions:
        own = first[run.name]
        placed = own.named.split if own.named is not None and run.group == own.named_group else None
        belongs = assign_split(run.group)
        is_own_group = run.group in (own.own_group, own.named_group)
        if (is_own_group and run.split in (belongs, placed)) or _is_beside_its_like(run, own, by_split[run.split]):
            continue
        if not is_own_group:
            whose = "its own bytes" if own.version == run.version else f"the bytes of its version {own.version}"
            problems.append(f"trajectory {run.name} is filed as {run.group!r}; {whose} say {own.own_group!r}")
        else:
            corpus = "" if placed is None else f", and its corpus to {placed}"
            problems.append(
                f"trajectory {run.name} is in {run.split}; the hash of its group assigns it to {belongs}{corpus}"
            )
    return problems


def _is_beside_its_like(run: Placed, own: Placed, beside: list[Placed]) -> bool:
    """Return whether a run shares its split, and its group unless that is its own, with the one it belongs to."""
    parted_from, is_fork, _ = run.name.rpartition("~")
    here = set(_shingles(run).tolist())
    for other in beside:
        if other.name == run.name or (run.group != own.own_group and other.group != run.group):
            continue
        if (is_fork and other.name == parted_from) or (run.text and run.text == other.text):
            return True
        there = set(_shingles(other).tolist())
        if here and len(here & there) / len(here | there) >= _NEARLY:
            return True
    return False


_NEARLY = 0.6
"""Ingesting asks for 0.8, which it estimates from a few hashes of a text's head and tail."""


def _on_both_sides(runs: list[Placed]) -> list[str]:
    """The same task, or the same words, in more than one split."""
    problems = []
    for what in ("named_group", "text"):
        found: dict[str, dict[str, str]] = {}
        for run in runs:
            if getattr(run, what):
                found.setdefault(getattr(run, what), {}).setdefault(run.split, run.name)
        for sides in found.values():
            if len(sides) > 1:
                places = " and ".join(f"in {split} as {name}" for split, name in sides.items())
                problems.append(f"the same {'task is' if what == 'named_group' else 'words are'} {places}")
    return problems


def _shingles(run: Placed) -> Shingles:
    return _numbers(run.sketch)


def _numbers(digits: str) -> Shingles:
    return np.frombuffer(bytes.fromhex(digits), "<u8").astype(np.uint64)


CHECK = Check(
    "splits hold",
    Severity.CRITICAL,
    "Is any run, or any task, both in what the scorer learned from and in what it was judged by?",
    "Every stored trajectory is read. Its group (the task where it names one) and the split that the salted hash of "
    "the group gives are computed from its own bytes and compared with the catalog's columns. Another group or split "
    "is accepted only if corpora/NAME/tasks.csv of this installation gives it to the run, or if it is that of a "
    "near-duplicate, or of the run that it parted from. No group and no text of a run, instructions left out, may be "
    "in two splits, and none of the policy's states may be of the test split. Texts that are nearly the same are found "
    "by the expectation on near-duplicates. Here no run may hold what the agent of a run in another split says, once "
    "case is folded and numbers are masked, nor share a part of every piece of it, as a copy with replaced words does. "
    "Tasks whose words are the same but for case and numbers are named for people to judge.",
    check_splits,
)
