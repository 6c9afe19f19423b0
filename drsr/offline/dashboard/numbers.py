"""Every number shown about a catalog's history, read once. The page and the metrics are renderings of it."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, cast, func, select

from drsr.errors import BackboneNotFetched, DrsrError
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.tables import DecisionState, QuarantinedItem, Source, SourceFile, Trajectory
from drsr.offline.dashboard.drift import Drift, read_drift
from drsr.offline.dashboard.nights import Night, read_nights
from drsr.offline.featurize.views import DEFAULT_VIEW
from drsr.offline.ingest.feeds.limits import Feed, feeds, load_limits
from drsr.offline.publish.records import ReleaseRecord, latest_releases
from drsr.offline.publish.refreshes import Waiting, new_labels, waiting
from drsr.offline.stages import NAMES
from drsr.offline.store.kept import Kept
from drsr.offline.store.place import Place
from drsr.offline.train.metrics import Metric, Metrics
from drsr.offline.train.records import CalibrationRecord, get_calibration, get_training_run

LABELER = "default"


class SourceNumbers(NamedTuple):
    """One source."""

    source: str
    runs: int
    """Current ones."""
    states: int
    """Of current runs, under any rule."""
    quarantined: int
    """Things in its files that cannot be read now."""


class LabelNumbers(NamedTuple):
    """The labels that one labeler measured in the current runs of one source."""

    labeler: str
    source: str
    states: int
    """Labelled ones."""
    sets: int
    unsafe: int

    @property
    def unsafe_share(self) -> float:
        return self.unsafe / self.sets if self.sets else 0.0


class ReleaseNumbers(NamedTuple):
    """A released policy: its operating point, and how it and its scorer do on validation."""

    release: ReleaseRecord
    calibration: CalibrationRecord
    train_sets: int
    metrics: Metrics


class Left(NamedTuple):
    """The work that waits now."""

    waiting: Waiting | None
    """Work that waits; None if it cannot be counted."""
    why_unknown: str | None
    new_labels: int | None
    """Number of labelled states that the newest scorer has not seen; None before the first scorer."""
    feeds: list[Feed]
    """Sources that broke their limits."""


class Numbers(NamedTuple):
    at: datetime.datetime
    catalog: str
    """Its address, without the password."""
    nights: list[Night]
    """Oldest first."""
    sources: list[SourceNumbers]
    quarantined: list[tuple[str, str, int]]
    """Source, reason, and how many things are in quarantine now."""
    labels: list[LabelNumbers]
    drift: Drift | None
    releases: list[ReleaseNumbers]
    """Newest first."""
    left: Left

    def to_json(self) -> dict[str, Any]:
        drift = self.drift
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "catalog": self.catalog,
            "nights": [_night(night) for night in self.nights],
            "sources": [source._asdict() for source in self.sources],
            "quarantined": [dict(zip(("source", "reason", "count"), row, strict=True)) for row in self.quarantined],
            "labels": [row._asdict() | {"unsafe_share": row.unsafe_share} for row in self.labels],
            "drift": None if drift is None else drift._asdict() | {"sources": [row._asdict() for row in drift.sources]},
            "releases": [_release(found) for found in self.releases],
            "left": self.left._asdict()
            | {
                "waiting": None if self.left.waiting is None else self.left.waiting._asdict(),
                "feeds": [feed._asdict() for feed in self.left.feeds],
            },
        }


def read_numbers(place: Place, now: datetime.datetime, kept: Kept | None = None, *, with_drift: bool = True) -> Numbers:
    """Read everything. Each table is read once, features only if they changed since `kept` knows their drift."""
    with place.catalog.reading() as connection:
        nights = read_nights(connection)
        sources = _sources(connection)
        quarantined = _quarantined(connection)
        labels = _labels(connection)
        total = connection.execute(select(func.count()).select_from(PolicyRelease)).scalar_one()
        releases = [_numbers(connection, found) for found in latest_releases(connection, total)]
        broken = [feed for feed in feeds(connection, load_limits()) if not feed.is_settled]
    drift = read_drift(place, kept) if with_drift else None
    location = place.catalog.location
    return Numbers(now, location, nights, sources, quarantined, labels, drift, releases, _left(place, broken))


def _sources(connection: Connection) -> list[SourceNumbers]:
    current = Trajectory.is_current()
    runs = select(Trajectory.source_id, func.count()).where(current).group_by(Trajectory.source_id)
    states = (
        select(Trajectory.source_id, func.count())
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(current)
        .group_by(Trajectory.source_id)
    )
    lost = select(SourceFile.source_id, func.sum(SourceFile.quarantined)).group_by(SourceFile.source_id)
    by = [dict(connection.execute(query).tuples().all()) for query in (runs, states, lost)]
    names = connection.execute(select(Source.id, Source.name).order_by(Source.name)).tuples()
    return [SourceNumbers(name, *(int(counts.get(number, 0)) for counts in by)) for number, name in names]


def _quarantined(connection: Connection) -> list[tuple[str, str, int]]:
    query = (
        select(Source.name, QuarantinedItem.reason, func.count())
        .select_from(QuarantinedItem)
        .join(SourceFile, SourceFile.id == QuarantinedItem.source_file_id)
        .join(Source, Source.id == SourceFile.source_id)
        .group_by(Source.name, QuarantinedItem.reason)
        .order_by(Source.name, QuarantinedItem.reason)
    )
    return [(source, reason, count) for source, reason, count in connection.execute(query)]


def _labels(connection: Connection) -> list[LabelNumbers]:
    names = (Labeler.name, Source.name)
    measured = (
        select(*names, func.count())
        .select_from(StateMeasurement)
        .join(Labeler, Labeler.id == StateMeasurement.labeler_id)
        .join(DecisionState, DecisionState.id == StateMeasurement.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateMeasurement.outcome == "labelled", Trajectory.is_current())
        .group_by(*names)
        .order_by(*names)
    )
    sets = (
        select(*names, func.count(), func.sum(cast(Label.unsafe, Integer)))
        .select_from(Label)
        .join(Labeler, Labeler.id == Label.labeler_id)
        .join(DecisionState, DecisionState.id == Label.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current())
        .group_by(*names)
    )
    counted = {
        (labeler, source): (int(count), int(unsafe or 0)) for labeler, source, count, unsafe in connection.execute(sets)
    }
    return [
        LabelNumbers(labeler, source, states, *counted.get((labeler, source), (0, 0)))
        for labeler, source, states in connection.execute(measured)
    ]


def _numbers(connection: Connection, release: ReleaseRecord) -> ReleaseNumbers:
    calibration = get_calibration(connection, release.calibration_run_id)
    training = get_training_run(connection, calibration.training_run_id)
    metrics = Metrics(*(Metric.from_json(value) for value in training.metrics["ensemble"]))
    return ReleaseNumbers(release, calibration, training.train_sets, metrics)


def _left(place: Place, broken: list[Feed]) -> Left:
    new = new_labels(place.catalog, DEFAULT_VIEW, LABELER)
    count = None if new is None else new.states
    try:
        return Left(waiting(place, view=DEFAULT_VIEW, labeler=LABELER), None, count, broken)
    except BackboneNotFetched as error:
        return Left(None, f"{error.what} ({error.hint})", count, broken)
    except DrsrError as error:  # measured with other settings than this machine's: nobody here can say what waits
        return Left(None, error.what, count, broken)


def _night(night: Night) -> dict[str, Any]:
    outcome = night.outcome
    return {
        "started_at": night.started_at.isoformat(timespec="seconds"),
        "seconds": {stage: round(seconds, 3) for stage, seconds in night.seconds.items()},
        "between": round(night.between, 3),
        "unfinished": list(night.unfinished),
        "failed": night.failed,
        "quarantined": night.quarantined,
        "labelled_per_hour": night.labelled_per_hour,
        "published": None if outcome is None else bool(outcome.get("published")),
        "said": said(night),
    }


def said(night: Night) -> str:
    """Return how a night ended, in a phrase."""
    outcome = night.outcome
    if night.failed and outcome:
        return f"failed in {night.failed}: {outcome.get('reason', 'no reason was recorded')}"
    if night.unfinished:
        return f"not finished: {', '.join(night.unfinished)}"
    if outcome is None:
        last = max((run.stage for run in night.runs), key=NAMES.index)
        return "nothing new to work on" if last == NAMES[0] else f"ended after {last}, without a release"
    if outcome.get("published"):
        return f"published {outcome['version']}"
    if outcome.get("waits"):
        return str(outcome["waits"])
    return f"the released policy stays: {outcome.get('reason', 'no reason was recorded')}"


def _release(found: ReleaseNumbers) -> dict[str, Any]:
    point = found.calibration
    return {
        "version": found.release.version,
        "published_at": found.release.published_at.isoformat(timespec="seconds"),
        "abstains_always": found.release.abstains_always,
        "mode": point.mode,
        "max_cardinality": point.max_cardinality,
        "uncertainty_coefficient": point.uncertainty_coefficient,
        "risk_threshold": point.risk_threshold,
        "states": point.states,
        "selected": point.selected,
        "unsafe_rate": point.unsafe_rate,
        "mean_harm": point.mean_harm,
        "mean_removal": point.mean_removal,
        "train_sets": found.train_sets,
        "unsafe_auroc": found.metrics.unsafe_auroc.value,
        "state_pairs": found.metrics.state_pairs.value,
        "brier": found.metrics.brier.value,
    }
