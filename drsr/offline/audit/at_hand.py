"""The data that were at hand when a scorer's data were read, and what of them the policy was made without.

Left out of the fit, a bad state makes a better policy. The journal knows what there was; the tables, put in order
afterwards, do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select

from drsr.offline.audit.exclusions import allowed
from drsr.offline.catalog import ledger
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.journal import event_of, get_event
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.publish.lineage_rows import FITTED
from drsr.offline.publish.subject import Subject


class Noted(NamedTuple):
    """The latest that the journal says of a row."""

    value: str
    event: int
    kind: str


Rows = dict[str, dict[str, Noted]]


class Fit(NamedTuple):
    """The training that a policy rests on, according to the journal and the tables."""

    read_after: int
    """The latest event before the scorer's data were read, as training wrote down ..."""
    trained: int
    """... and the event that records the training."""
    labeler: str
    runs: Collection[str] | None
    """Versions of the runs of the one source that it is for; None: all may take part."""


class AtHand(NamedTuple):
    """The data there was to fit when a scorer's data were read, according to the journal."""

    event: int
    """The latest before they were read."""
    states: Mapping[str, str]
    """The split of each measured state of train and validation whose run took part."""
    superseded: frozenset[str]
    """Versions of runs with measured states that something had taken the place of ..."""
    replaced: tuple[str, ...]
    """... and of these the ones whose run had no measured state in a newer version: a run is also left out this way."""


def find_at_hand(rows: Rows, event: int, fit: Fit) -> AtHand:
    """Return what could be fitted after an event; `rows` are those of the journal so far."""
    out = {name.partition(".")[0] for name, noted in rows.get("withdrawal", {}).items() if noted.value[:2] == "in"}
    runs = {name: noted.value.split() for name, noted in rows.get("run", {}).items()}
    states: dict[str, str] = {}
    superseded, taking_part = set(), set()
    for name, noted in rows.get("measurement", {}).items():
        measured_by, _, key = name.rpartition(" ")
        if measured_by != fit.labeler or not noted.value.startswith("labelled ") or key not in rows.get("state", {}):
            continue
        run = rows["state"][key].value.split()[0]
        split, taken_by, *_ = runs.get(run, ("", ""))
        if split not in FITTED or run.partition(".")[0] in out or (fit.runs is not None and run not in fit.runs):
            continue
        if taken_by == "-":
            states[key] = split
            taking_part.add(run.partition(".")[0])
        else:
            superseded.add(run)
    replaced = tuple(sorted(run for run in superseded if run.partition(".")[0] not in taking_part))
    return AtHand(event, states, frozenset(superseded), replaced)


def find_fit(connection: Connection, subject: Subject) -> Fit | None:
    """Return what is said of the training; None where it is older than the journal."""
    noted = event_of(connection, subject.run.run_key, "train")
    event = None if noted is None else get_event(connection, noted.number)
    if event is None or event.kind == "open":
        return None
    source, runs = subject.run.source, None
    if source is not None:
        query = select(Trajectory.external_id, Trajectory.version).join(Source, Source.id == Trajectory.source_id)
        found = connection.execute(query.where(Source.name == source))
        runs = {f"{ledger.run_name(source, external_id)}.{version}" for external_id, version in found}
    return Fit(int(event.facts["read_after"]), event.number, subject.labeler.name, runs)


class LeftOut(NamedTuple):
    """States that were there to be fitted and are not behind the policy."""

    problems: tuple[str, ...] = ()
    without_features: int = 0
    erased: int = 0


def find_left_out(connection: Connection, subject: Subject, at_hand: AtHand | None, rows: Rows) -> LeftOut:
    """Return the states at hand that the policy was made without; `rows` are those of the whole journal."""
    if at_hand is None:
        return LeftOut()
    missing = at_hand.states.keys() - set(subject.state_keys)
    here = sorted(missing & rows.get("state", {}).keys())
    query = (
        select(DecisionState.state_key)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .where(StateFeatures.view_id == subject.run.view_id, StateFeatures.outcome == "stored")
    )
    featured = set(connection.execute(query.where(among(connection, DecisionState.state_key, here))).scalars())
    said = f"was measured and took part when the scorer's data were read (event {at_hand.event}), and"
    problems = [f"state {key} {said} the policy was made without it" for key in here if key in featured]
    gone = missing - set(here)
    if subject.has_policy:
        problems += _erased_too_many(at_hand, gone)
    return LeftOut(tuple(problems), len(here) - len(featured), len(gone))


def _erased_too_many(at_hand: AtHand, gone: Collection[str]) -> Iterator[str]:
    """Yield the splits of which more states were left out and then erased than could not be helped: a state without
    features may have to be erased, too, and nobody can try these again."""
    of_split = Counter(at_hand.states.values())
    for split, count in sorted(Counter(at_hand.states[key] for key in gone).items()):
        if count > allowed(of_split[split]):
            yield (
                f"{count:,} of {of_split[split]:,} states of {split} that were at hand when the scorer's data were "
                f"read (event {at_hand.event}) are not behind the policy, and were erased since: nobody can say why "
                f"they were left out (allowed {allowed(of_split[split]):,})"
            )
