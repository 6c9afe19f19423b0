"""The journal replayed: every event follows from the one before, and the tables hold what the events record.

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

from drsr.offline.audit.at_hand import AtHand, Fit, Noted, Rows, find_at_hand, find_fit, find_left_out
from drsr.offline.audit.moments import CLOCKS, Anchored, Dated, not_by_then, other_moments, read_anchor
from drsr.offline.catalog import ledger
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.journal import NOTHING, Event, Head, event_hash, events
from drsr.offline.catalog.reads import FROM_BEFORE
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.publish.lineage import JOURNAL
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed

_WORDS = {
    "file": "source file",
    "mark": "mark of a frozen run",
    "read": "logged read",
    "training": "training run",
}
"""The words for kinds of rows that are not called by their names."""


class Replayed(NamedTuple):
    """The journal from its first event to its last."""

    rows: Rows
    heads: list[str]
    """SHA-256 of every event."""
    moments: dict[int, datetime.datetime]
    """Moment at which each was noted, by its number; not in the chain."""
    opened: Mapping[str, int]
    """The number of rows of each kind when it began."""
    at_hand: AtHand | None
    """None: the scorer was trained before the journal began."""
    too_late: int
    """States that came to be at hand between the reading of the scorer's data and the end of its training."""
    problems: list[str]

    @property
    def head(self) -> Head:
        return Head(len(self.heads), self.heads[-1])


def check_journal(subject: Subject, told: Told) -> list[Verdict]:
    with subject.catalog.reading() as connection:
        found = replay(events(connection), find_fit(connection, subject))
        if not found.heads:
            hint = "drsr catalog upgrade opens one; what happened before is covered by no audit"
            return failed(CHECK, "the catalog has no journal", hint)
        left_out = find_left_out(connection, subject, found.at_hand, found.rows)
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
    said = f"{len(found.heads):,} events replayed, the tables hold what they record; head {found.head}"
    if left_out.without_features:
        said += f"; {left_out.without_features:,} measured states without features were left out of the fit"
    if left_out.erased:
        without = ", and the policy was made without them: nobody can say why" if subject.has_policy else ""
        said += f"; {left_out.erased:,} states that could be fitted were erased since{without}"
    if found.too_late:
        said += f"; {found.too_late:,} states were measured while the scorer was trained, and took no part"
    if found.at_hand is not None and found.at_hand.replaced:
        said += (
            f"; {len(found.at_hand.replaced):,} labelled versions of runs took no part, because a newer version that "
            "had no label then had taken their place"
        )
    if waiting:
        said += f"; {waiting:,} reads to fit or describe wait to be noted"
    return passed(CHECK, said + _not_covered(subject, found), **evidence)


def replay(noted: Iterable[Event], fit: Fit | None) -> Replayed:
    """Go through the events once. Where the chain is broken that is a problem, and the rest is replayed all the same.

    `fit` is the training in question; None where it is older than the journal.
    """
    rows: Rows = {}
    heads: list[str] = []
    moments: dict[int, datetime.datetime] = {}
    opened: dict[str, int] = {}
    problems: list[str] = []
    at_hand = when_trained = None
    is_opening, has_reads = True, False
    last = Head(0, NOTHING)
    for event in noted:
        if event.number != last.number + 1 or event.before != last.sha256:
            problems.append(f"event {event.number} of the journal does not follow event {last.number}: one is missing")
        elif event.sha256 != event_hash(event.number, event.kind, event.before, event.content):
            problems.append(f"event {event.number} of the journal ({event.kind}) does not have the hash of its content")
        last = event.head
        heads.append(event.sha256)
        moments[event.number] = event.noted_at
        if event.kind == "open" and not is_opening:
            problems.append(f"event {event.number} says that it opens the journal, which had begun with event 1")
        is_opening = is_opening and event.kind == "open"
        from_before = bool(event.facts.get(FROM_BEFORE))
        if from_before and (has_reads or event.rows.keys() != {"read"}):
            problems.append(
                f"event {event.number} says that it records what came before, which only the first reads can"
            )
        has_reads = has_reads or ("read" in event.rows and not from_before)
        kind = "open" if from_before else event.kind  # that of reads, which came later than the rest
        for name, change in event.rows.items():
            if kind == "open":
                opened[name] = opened.get(name, 0) + len(change)
            known = rows.setdefault(name, {})
            for row, value in change.items():
                if value is None:
                    known.pop(row, None)
                else:
                    known[row] = Noted(value, event.number, kind)
        if fit is not None and event.number == fit.read_after:
            at_hand = find_at_hand(rows, event.number, fit)
        if fit is not None and event.number == fit.trained:
            when_trained = find_at_hand(rows, event.number, fit)
    if fit is not None and not 0 < fit.read_after < fit.trained:
        problems.append(
            f"event {fit.trained} says that the scorer's data were read after event {fit.read_after}, which cannot be"
        )
    too_late = 0 if at_hand is None or when_trained is None else len(when_trained.states.keys() - at_hand.states.keys())
    return Replayed(rows, heads, moments, opened, at_hand, too_late, problems)


def differences(rows: Rows, tables: Mapping[str, ledger.Rows]) -> Iterator[str]:
    """Yield what the journal records and the tables do not hold, and the other way round."""
    for kind, here in tables.items():
        word, known = _WORDS.get(kind, kind), rows.get(kind, {})
        for name, noted in known.items():
            told = f"{word} {name} is in the journal (event {noted.event}, {noted.kind})"
            if name not in here:
                yield f"{told} and not in the catalog: it was deleted past the journal"
            elif here[name] != noted.value:
                yield f"{told} differently than in the catalog: it was changed past the journal"
        yield from (
            f"{word} {name} is in the catalog and not in its journal: it was added past the journal"
            for name in here
            if name not in known
        )


def _reads_to_be_noted(reads: ledger.Rows, found: Replayed) -> int:
    """Take out the reads that no event has to record yet: those later than the latest noted read that did not evaluate.
    Return how many."""
    latest = max(map(int, found.rows.get("read", {})), default=0)
    waiting = [name for name, value in reads.items() if int(name) > latest and not value.startswith("evaluate ")]
    for name in waiting:
        del reads[name]
    return len(waiting)


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
    "Every event of the journal holds the hash of the one before. They are replayed, and what they record of source "
    "files, runs, marks, states, measurements, withdrawals, trainings, calibrations, releases and reads of splits is "
    "compared row by row with the tables. What was measured when the scorer's data were read must be behind the "
    "policy. The event that the wheel names, and every head in the file of --anchor, must be in the chain. The moments "
    "of events, trainings, calibrations and reads must be in the order of the events, to "
    f"{CLOCKS.seconds // 60} minutes, and on the right side of each moment at which a head was anchored.",
    check_journal,
)
