"""The journal replayed: every event follows from the one before, and what they tell is what the tables hold.

What was left out is found here: a row that an event tells of and no table has, a state that was measured before the
scorer was trained and that the policy was made without. Somebody who writes the whole journal anew is found by a head
that is kept elsewhere: in the wheel, or in the file of `--anchor`.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from drsr.offline.audit.moments import CLOCKS, Anchored, Dated, not_by_then, other_moments, read_anchor
from drsr.offline.catalog import ledger
from drsr.offline.catalog.feature_tables import SplitRead, StateFeatures
from drsr.offline.catalog.journal import NOTHING, Event, Head, event_hash, event_of, events, get_event
from drsr.offline.catalog.reads import FROM_BEFORE
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.publish.lineage import JOURNAL
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed

_FITTED = ("train", "validation")
_WORDS = {
    "file": "source file",
    "mark": "mark of a frozen run",
    "read": "logged read",
    "training": "training run",
}
"""The words for kinds of rows that are not called by their names."""


class Noted(NamedTuple):
    """The latest that the journal says of a row."""

    value: str
    event: int
    kind: str


Rows = dict[str, dict[str, Noted]]


class AtHand(NamedTuple):
    """The data there was to fit when a scorer's data were read, according to the journal."""

    event: int
    """The latest before they were read."""
    states: frozenset[str]
    """Measured states of train and validation whose runs took part."""
    superseded: frozenset[str]
    """Versions of runs with measured states that something had taken the place of ..."""
    replaced: tuple[str, ...]
    """... and of these the ones whose run had no measured state in a newer version: a run is also left out this way."""


class Replayed(NamedTuple):
    """The journal from its first event to its last."""

    rows: Rows
    heads: list[str]
    """SHA-256 of every event."""
    moments: dict[int, datetime.datetime]
    """When each was noted, by its number; not in the chain."""
    opened: Mapping[str, int]
    """The number of rows of each kind when it began."""
    at_hand: AtHand | None
    """None: the scorer was trained before the journal began."""
    problems: list[str]

    @property
    def head(self) -> Head:
        return Head(len(self.heads), self.heads[-1])


def check_journal(subject: Subject, told: Told) -> list[Verdict]:
    labeler, run_key = subject.labeler, subject.run.run_key
    with subject.catalog.reading() as connection:
        found = replay(events(connection), _read_after(connection, run_key), labeler.name)
        if not found.heads:
            hint = "drsr catalog upgrade opens one; what happened before is covered by no audit"
            return failed(CHECK, "the catalog has no journal", hint)
        left_out = _left_out(connection, subject, found)
        tables = ledger.whole(connection)
        waiting = _reads_to_be_noted(tables["read"], found)
        problems = [*found.problems, *differences(found.rows, tables), *left_out.problems]
        problems += _came_back(connection, found)
        problems += other_moments(found.moments, _dated(connection, found))
    anchors = [] if subject.order.anchor is None else read_anchor(subject.order.anchor)
    problems += [*_not_in_chain(subject, found.heads, anchors), *not_by_then(found.moments, anchors)]
    evidence: dict[str, Any] = {"head": str(found.head), "events": len(found.heads), "opened with": dict(found.opened)}
    evidence |= {"superseded without a label": [] if found.at_hand is None else found.at_hand.replaced}
    if problems:
        hint = "restore the catalog from a copy that agrees with its journal, and find out who changed it"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    said = f"{len(found.heads):,} events replayed, the tables hold what they tell; head {found.head}"
    if left_out.without_features:
        said += f"; {left_out.without_features:,} measured states without features were left out of the fit"
    if left_out.erased:
        said += f"; {left_out.erased:,} states were erased since"
    if found.at_hand is not None and found.at_hand.replaced:
        said += (
            f"; {len(found.at_hand.replaced):,} labelled versions of runs took no part, because a newer version that "
            "had no label then had taken their place"
        )
    if waiting:
        said += f"; {waiting:,} reads to fit or describe wait to be noted"
    return passed(CHECK, said + _not_covered(subject, found), **evidence)


def replay(noted: Iterable[Event], read_after: int | None, labeler: str) -> Replayed:
    """Go through the events once. Where the chain is broken that is a problem, and the rest is replayed all the same.

    `read_after` is the event after which the scorer's data were read.
    """
    rows: Rows = {}
    heads: list[str] = []
    moments: dict[int, datetime.datetime] = {}
    opened: dict[str, int] = {}
    problems: list[str] = []
    at_hand = None
    last = Head(0, NOTHING)
    for event in noted:
        if event.number != last.number + 1 or event.before != last.sha256:
            problems.append(f"event {event.number} of the journal does not follow event {last.number}: one is missing")
        elif event.sha256 != event_hash(event.number, event.kind, event.before, event.content):
            problems.append(f"event {event.number} of the journal ({event.kind}) does not have the hash of its content")
        last = event.head
        heads.append(event.sha256)
        moments[event.number] = event.noted_at
        kind = "open" if event.facts.get(FROM_BEFORE) else event.kind  # that of reads, which came later than the rest
        for name, change in event.rows.items():
            if kind == "open":
                opened[name] = opened.get(name, 0) + len(change)
            known = rows.setdefault(name, {})
            for row, value in change.items():
                if value is None:
                    known.pop(row, None)
                else:
                    known[row] = Noted(value, event.number, kind)
        if event.number == read_after:
            at_hand = _at_hand(rows, event.number, labeler)
    return Replayed(rows, heads, moments, opened, at_hand, problems)


def differences(rows: Rows, tables: Mapping[str, ledger.Rows]) -> Iterator[str]:
    """Yield what the journal tells and the tables do not hold, and the other way round."""
    for kind, here in tables.items():
        word, known = _WORDS.get(kind, kind), rows.get(kind, {})
        for name, noted in known.items():
            told = f"{word} {name} is in the journal (event {noted.event}, {noted.kind})"
            if name not in here:
                yield f"{told} and not in the catalog: it was deleted past the journal"
            elif here[name] != noted.value:
                yield f"{told} otherwise than in the catalog: it was changed past the journal"
        yield from (
            f"{word} {name} is in the catalog and not in its journal: it was added past the journal"
            for name in here
            if name not in known
        )


def _reads_to_be_noted(reads: ledger.Rows, found: Replayed) -> int:
    """Take out the reads that no event has to tell of yet, those later than the latest noted one that did not evaluate.
    Return how many."""
    latest = max(map(int, found.rows.get("read", {})), default=0)
    waiting = [name for name, value in reads.items() if int(name) > latest and not value.startswith("evaluate ")]
    for name in waiting:
        del reads[name]
    return len(waiting)


def _at_hand(rows: Rows, event: int, labeler: str) -> AtHand:
    out = {name.partition(".")[0] for name, noted in rows.get("withdrawal", {}).items() if noted.value[:2] == "in"}
    runs = {name: noted.value.split() for name, noted in rows.get("run", {}).items()}
    states, superseded, taking_part = set(), set(), set()
    for name, noted in rows.get("measurement", {}).items():
        measured_by, _, key = name.rpartition(" ")
        if measured_by != labeler or not noted.value.startswith("labelled ") or key not in rows.get("state", {}):
            continue
        run = rows["state"][key].value.split()[0]
        split, taken_by, *_ = runs.get(run, ("", ""))
        if split not in _FITTED or run.partition(".")[0] in out:
            continue
        if taken_by == "-":
            states.add(key)
            taking_part.add(run.partition(".")[0])
        else:
            superseded.add(run)
    replaced = tuple(sorted(run for run in superseded if run.partition(".")[0] not in taking_part))
    return AtHand(event, frozenset(states), frozenset(superseded), replaced)


def _read_after(connection: Connection, run_key: str) -> int | None:
    """Return the event after which a scorer's data were read; None where it was trained before the journal began."""
    noted = event_of(connection, run_key, "train")
    event = None if noted is None else get_event(connection, noted.number)
    if event is None or event.kind == "open":
        return None
    return int(event.facts["read_after"])


class LeftOut(NamedTuple):
    """States that were there to be fitted and are not behind the policy."""

    problems: tuple[str, ...] = ()
    without_features: int = 0
    erased: int = 0


def _left_out(connection: Connection, subject: Subject, found: Replayed) -> LeftOut:
    if found.at_hand is None:
        return LeftOut()
    missing = found.at_hand.states - set(subject.state_keys)
    here = sorted(missing & found.rows.get("state", {}).keys())
    query = (
        select(DecisionState.state_key)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .where(StateFeatures.view_id == subject.run.view_id, StateFeatures.outcome == "stored")
    )
    featured = set(connection.execute(query.where(among(connection, DecisionState.state_key, here))).scalars())
    said = f"was measured and took part when the scorer's data were read (event {found.at_hand.event}), and"
    problems = (f"state {key} {said} the policy was made without it" for key in here if key in featured)
    return LeftOut(tuple(problems), len(here) - len(featured), len(missing) - len(here))


def _came_back(connection: Connection, found: Replayed) -> Iterator[str]:
    """Yield the runs that were superseded when the scorer's data were read, and take part again now."""
    if found.at_hand is None:
        return
    back = {name for name in found.at_hand.superseded if found.rows["run"][name].value.split()[1] == "-"}
    if not back:
        return
    query = select(Source.name, Trajectory.external_id, Trajectory.version, Trajectory.split)
    for source, external_id, version, split in connection.execute(query.join(Source)):
        name = f"{ledger.run_name(source, external_id)}.{version}"
        if name in back:
            yield (
                f"run {source}/{external_id} of {split} was superseded when the scorer's data were read (event "
                f"{found.at_hand.event}) and is current again (event {found.rows['run'][name].event}): the policy was "
                "made without it"
            )


def _dated(connection: Connection, found: Replayed) -> Iterator[Dated]:
    """Yield the moments of trainings, calibrations and reads that the journal has an event of."""
    trained = select(TrainingRun.run_key, TrainingRun.trained_at)
    calibrated = select(CalibrationRun.calibration_key, CalibrationRun.calibrated_at)
    for kind, query in (("training", trained), ("calibration", calibrated)):
        for name, moment in connection.execute(query):
            noted = found.rows.get(kind, {}).get(name)
            if noted is not None and noted.kind != "open":
                yield Dated(f"{_WORDS.get(kind, kind)} {name}", moment, noted.event, noted.event)
    noting = [0, *sorted({noted.event for noted in found.rows.get("read", {}).values()})]
    earlier = {event: before for before, event in itertools.pairwise(noting)}
    for number, purpose, moment in connection.execute(select(SplitRead.id, SplitRead.purpose, SplitRead.read_at)):
        noted = found.rows.get("read", {}).get(str(number))
        if noted is None:
            yield Dated(f"logged read {number}", moment, None, noting[-1] or None)
        elif noted.kind != "open":
            since = noted.event if purpose == "evaluate" else earlier[noted.event]
            yield Dated(f"logged read {number}", moment, noted.event, since or None)


def _not_in_chain(subject: Subject, heads: list[str], anchors: list[Anchored]) -> Iterator[str]:
    """Yield the heads that were written down elsewhere and are not in this journal."""
    links = subject.lineage.links if subject.has_policy else ()
    kept = [(f"the policy's {link.link}", Head(link.items, link.sha256)) for link in links if link.link == JOURNAL]
    kept += [("the anchor", anchored.head) for anchored in anchors]
    for where, head in kept:
        there = heads[head.number - 1] if 0 < head.number <= len(heads) else "missing"
        if there != head.sha256:
            yield (
                f"event {head.number} is {head.sha256} in {where}, and {there} in the catalog: the journal was written "
                "anew or cut short"
            )


def _not_covered(subject: Subject, found: Replayed) -> str:
    """Return what the journal cannot speak of."""
    said = ""
    if subject.order.anchor is None:
        said += "; NOT ANCHORED: no head was handed over (--anchor)"
    if found.opened:
        counts = ", ".join(f"{count:,} {_WORDS.get(name, name)}s" for name, count in sorted(found.opened.items()))
        said += f"; NOT COVERED is how this came to be, which is older than the journal: {counts}"
    if subject.has_policy and all(link.link != JOURNAL for link in subject.lineage.links):
        said += "; the policy is older than the journal, and names none of its events"
    return said


CHECK = Check(
    "journal",
    Severity.CRITICAL,
    "Are these all the runs, states, labels and withdrawals that there were, and all that could be fitted?",
    "Every event of the journal holds the hash of the one before. They are replayed, and what they tell of source "
    "files, runs, marks, states, measurements, withdrawals, trainings, calibrations, releases and reads of splits is "
    "compared row by row with the tables. What was measured when the scorer's data were read must be behind the "
    "policy. The event that the wheel names, and every head in the file of --anchor, must be in the chain. The moments "
    "of events, trainings, calibrations and reads must be in the order of the events, to "
    f"{CLOCKS.seconds // 60} minutes, and on the right side of each moment at which a head was anchored.",
    check_journal,
)
