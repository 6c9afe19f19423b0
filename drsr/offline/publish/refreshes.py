"""Is there anything new? What waits in each stage, and a stamp of all that a policy is made from.

A refresh that came to its end notes the stamp, and what it published or why not, in the catalog's journal. The next one
that finds nothing waiting and the same stamp has nothing to do.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, func, select

import drsr
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.scorer_tables import TrainingRun
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Execution, Source, Trajectory
from drsr.offline.featurize.views import find_view
from drsr.offline.freeze.records import count_unfrozen
from drsr.offline.freeze.selection import Selection
from drsr.offline.label.configured import configured, count_left
from drsr.offline.label.records import labeler_named
from drsr.offline.params import Params
from drsr.offline.publish.lineage_rows import labeler_of, present_states
from drsr.offline.store.place import Place
from drsr.offline.train.records import CALIBRATION_VERSION, TRAINING_VERSION


class Refreshed(NamedTuple):
    """The subject of a refresh: the policies of one view and one labeler, calibrated in one mode."""

    view: str
    labeler: str
    certified: bool

    @property
    def subject(self) -> str:
        """Subject of the runs that record such a refresh."""
        return f"nightly: {self.view}, {self.labeler}, {'certified' if self.certified else 'plain'}"


FAILED = "nightly: failed"
"""Subject of the runs that record a refresh that failed; `last_refresh` never finds one."""
WAITS = "nightly: waits"
"""The same of one that ended before training, because too little was new."""


class Waiting(NamedTuple):
    """The work that the stages up to featurize still have to do."""

    unfrozen: int
    """Trajectories."""
    unlabelled: int
    """States."""
    unfeaturized: int
    """States."""


ENOUGH_LABELS = r"[1-9]\d{0,8}|(\d|[1-9]\d)(\.\d{1,3})?%"
"""Written form of the number of new labelled states at which training begins: a number, or a share of those it has
seen."""


def says_enough(wanted: str) -> bool:
    """Return whether a text is a valid number of new labelled states at which training begins."""
    return re.fullmatch(ENOUGH_LABELS, wanted, re.ASCII) is not None


class NewLabels(NamedTuple):
    """The labelled states that the latest scorer has not seen."""

    states: int
    others_gone: bool
    """True if states that it has seen no longer take part: then it should be trained again whatever is new."""
    seen: int = 0
    """States that it was trained and stopped on."""

    def are_too_few(self, wanted: int | str) -> bool:
        return self.states < self.needed(wanted) and not self.others_gone

    def needed(self, wanted: int | str) -> int:
        """Return the number of new labels that begin a training: `wanted`, or that many per cent of what the scorer has
        seen."""
        if isinstance(wanted, int) or not wanted.endswith("%"):
            return int(wanted)
        return math.ceil(self.seen * float(wanted[:-1]) / 100)

    def waiting(self, wanted: int | str) -> str:
        """Say in words what waits."""
        share = f" ({wanted} of {self.seen:,})" if str(wanted).endswith("%") else ""
        return (
            f"{self.states:,} new labelled states wait for training, which begins with {self.needed(wanted):,}{share}"
        )


class Refresh(NamedTuple):
    """A refresh that came to its end."""

    stamp: str
    outcome: dict[str, Any]
    """Record of what it published, or why not."""


def waiting(place: Place, *, view: str, labeler: str) -> Waiting:
    """Count what waits. The language model is not loaded, and nothing is changed."""
    found, everything = configured(place.settings), Selection()
    with place.catalog.reading() as connection:
        unfrozen = count_unfrozen(connection, found.freezing)
    named = (("label", labeler), ("featurize", view))
    return Waiting(unfrozen, *(count_left(place, found, stage, name, everything) for stage, name in named))


def new_labels(catalog: Catalog, view: str, labeler: str, source: str | None = None) -> NewLabels | None:
    """Count what was labelled since the latest scorer of a view, a labeler and all sources, or one, read its data; None
    before the first."""
    with catalog.reading() as connection:
        found, labeler_id = find_view(connection, view), labeler_named(connection, labeler)
        if found is None or labeler_id is None:
            return None
        mine = (TrainingRun.view_id == found.id, TrainingRun.labeler_id == labeler_id)
        runs = connection.execute(select(TrainingRun.trained_at, TrainingRun.params).where(*mine)).tuples()
        trained_at = max((at for at, params in runs if params.get("source") == source), default=None)
        if trained_at is None:
            return None
        reads = select(SplitRead.split, SplitRead.states, SplitRead.read_at).where(
            SplitRead.view_id == found.id,
            SplitRead.labeler_id == labeler_id,
            SplitRead.purpose == "train",
            SplitRead.read_at <= trained_at,
        )
        latest = {split: (states, at) for split, states, at in connection.execute(reads.order_by(SplitRead.id))}
        keys = present_states(connection, found, labeler_of(connection, labeler_id), source=source)
        first = min((at for _, at in latest.values()), default=None)
        measured = (
            select(func.count())
            .select_from(StateMeasurement)
            .join(DecisionState, DecisionState.id == StateMeasurement.state_id)
            .where(StateMeasurement.labeler_id == labeler_id, among(connection, DecisionState.state_key, keys))
        )
        if first is not None:
            measured = measured.where(StateMeasurement.measured_at > first)
        new = connection.execute(measured).scalar_one()
    seen = sum(states for states, _ in latest.values())
    return NewLabels(new, len(keys) - new != seen, seen)


def stamp(catalog: Catalog, params: Params, refreshed: Refreshed) -> str | None:
    """Return a value that changes whenever a refresh could end differently; None if there is nothing to fit yet."""
    with catalog.reading() as connection:
        found, labeler_id = find_view(connection, refreshed.view), labeler_named(connection, refreshed.labeler)
        if found is None or labeler_id is None:
            return None
        by = labeler_of(connection, labeler_id)
        trajectories = _digest(orjson.dumps(list(row)) for row in _current(connection))
        states = _digest(key.encode() for key in present_states(connection, found, by))
    return content_key(
        {
            "trajectories": trajectories,
            "states": states,
            "view": list(map(str, found.identity)),
            "labeler": list(map(str, by.identity)),
            "params": asdict(params),
            "certified": refreshed.certified,
            "versions": [drsr.__version__, TRAINING_VERSION, CALIBRATION_VERSION],
        }
    )


def last_refresh(catalog: Catalog, refreshed: Refreshed) -> Refresh | None:
    """Return the newest refresh of these that came to its end."""
    query = select(Execution.counts).where(
        Execution.stage == "publish", Execution.subject == refreshed.subject, Execution.finished_at.is_not(None)
    )
    with catalog.reading() as connection:
        counts = connection.execute(query.order_by(Execution.id.desc()).limit(1)).scalar()
    return None if counts is None else Refresh(counts["stamp"], counts["outcome"])


def note_refresh(catalog: Catalog, refreshed: Refreshed, refresh: Refresh) -> None:
    """Write into the journal that a refresh came to its end."""
    with catalog.writing() as connection:
        run_id = start_run(connection, "publish", refreshed.subject, drsr.__version__)
        finish_run(connection, run_id, refresh._asdict())


def note_failed(catalog: Catalog, stage: str, reason: str) -> None:
    """Write into the journal that a refresh failed: without that, what it did until then looks like a quiet night."""
    _note(catalog, FAILED, {"published": False, "failed": stage, "reason": reason})


def note_waiting(catalog: Catalog, waits: str) -> None:
    """Write into the journal what a refresh left waiting for training."""
    _note(catalog, WAITS, {"published": False, "waits": waits})


def _note(catalog: Catalog, subject: str, outcome: dict[str, Any]) -> None:
    with catalog.writing() as connection:
        run_id = start_run(connection, "publish", subject, drsr.__version__)
        finish_run(connection, run_id, Refresh("", outcome)._asdict())


def _current(connection: Connection) -> Iterable[tuple[str, str, str, str]]:
    columns = (Source.name, Trajectory.external_id, Trajectory.content_hash, Trajectory.split)
    query = select(*columns).join(Source, Source.id == Trajectory.source_id).where(Trajectory.is_current())
    return sorted(connection.execute(query).tuples())


def _digest(items: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for item in items:
        digest.update(hashlib.sha256(item).digest())
    return digest.hexdigest()
