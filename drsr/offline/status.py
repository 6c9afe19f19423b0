"""The status of a catalog: counts per source and stage, what is missing or stale, and the last runs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, func, select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.runs import KILLED
from drsr.offline.catalog.tables import (
    DecisionState,
    Execution,
    FrozenTrajectory,
    QuarantinedItem,
    Source,
    SourceFile,
    Trajectory,
)
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.records import FreezingRule, is_current_state, is_rule
from drsr.offline.ingest.absent_texts import AbsentTexts, absent_texts
from drsr.offline.ingest.withdrawals import withdrawn_runs
from drsr.offline.label.status import LabelStatus, label_status
from drsr.offline.train.records import (
    CalibrationRecord,
    TrainingRecord,
    latest_calibrations,
    latest_training_runs,
)

LAST_RUNS = 5
LAST_SCORERS = 10
LAST_CALIBRATIONS = 3


class SourceStatus(NamedTuple):
    """One source."""

    source: str
    files: int
    trajectories: int
    """Current ones."""
    superseded: int
    """Older versions of them."""
    quarantined: int
    """Things in its files that could not be read."""
    frozen: int | None
    """Current trajectories with frozen candidates under this rule and tokenizer, whether they gave states or none.
    None, as the two below, while the tokenizer is not known."""
    states: int | None
    """Decision states of these."""
    stale_states: int | None
    """States of superseded or withdrawn trajectories, or under another rule, renderer or tokenizer."""

    @property
    def to_freeze(self) -> int:
        """Current trajectories that are not known to be frozen."""
        return self.trajectories - (self.frozen or 0)


class ViewStatus(NamedTuple):
    """The latest version of a feature view. States are those of current trajectories, under the view's own rule."""

    name: str
    version: int
    backbone: str
    columns: int
    stored: int
    excluded: int
    """Features cannot be had, for a reason that is recorded."""
    waiting: int
    stale: int
    """States whose features are of an older version, or of superseded trajectories."""
    files: int


class Status(NamedTuple):
    sources: list[SourceStatus]
    splits: dict[str, int]
    """Current trajectories by split."""
    tasks: int
    """Different tasks that these are named by."""
    groups: int
    """Different split groups of these."""
    domains: dict[str, int]
    """Current trajectories by domain, where one is known."""
    without_text: AbsentTexts
    """Current runs that were imported, and whose texts are not here."""
    withdrawn: dict[str, int]
    """Runs that are withdrawn now, by split."""
    quarantined: dict[str, int]
    """By reason."""
    without_states: dict[str, int]
    """Frozen trajectories without an eligible decision, by reason."""
    labels: list[LabelStatus] | None
    """By labeler, `default` first. None while the tokenizer is not known."""
    views: list[ViewStatus]
    scorers: list[TrainingRecord]
    """The last trained ones, newest first."""
    calibrations: list[CalibrationRecord]
    """The last ones, newest first."""
    runs: list[dict[str, Any]]
    """The last runs, newest first."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {
            "without_text": self.without_text.runs,
            "sources": [
                {**row._asdict(), "to_freeze": None if row.frozen is None else row.to_freeze} for row in self.sources
            ],
            "labels": None if self.labels is None else [found._asdict() for found in self.labels],
            "views": [view._asdict() for view in self.views],
            "scorers": [record.to_json() for record in self.scorers],
            "calibrations": [record.to_json() for record in self.calibrations],
        }


def read_status(catalog: Catalog, rule: FreezingRule | None) -> Status:
    """Count everything, in a handful of queries. Without a rule, freezing is not counted."""
    with catalog.reading() as connection:
        return Status(
            sources=_sources(connection, rule),
            splits=_counts(
                connection,
                select(Trajectory.split, func.count()).where(Trajectory.is_current()).group_by(Trajectory.split),
            ),
            tasks=_distinct(connection, Trajectory.task),
            groups=_distinct(connection, Trajectory.group_key),
            domains=_counts(
                connection,
                select(Trajectory.domain, func.count())
                .where(Trajectory.is_current(), Trajectory.domain.is_not(None))
                .group_by(Trajectory.domain),
            ),
            without_text=absent_texts(connection),
            withdrawn=dict(sorted(Counter(run.split for run in withdrawn_runs(connection)).items())),
            quarantined=_counts(
                connection, select(QuarantinedItem.reason, func.count()).group_by(QuarantinedItem.reason)
            ),
            without_states={} if rule is None else _without_states(connection, rule),
            labels=None if rule is None else label_status(connection, rule),
            views=[_view(connection, name) for name in _view_names(connection)],
            scorers=latest_training_runs(connection, LAST_SCORERS),
            calibrations=latest_calibrations(connection, LAST_CALIBRATIONS),
            runs=_runs(connection),
        )


def _distinct(connection: Connection, column: Any) -> int:
    """Count the different values that current trajectories have."""
    return connection.execute(select(func.count(column.distinct())).where(Trajectory.is_current())).scalar_one()


def _sources(connection: Connection, rule: FreezingRule | None) -> list[SourceStatus]:
    current = Trajectory.is_current()
    files = _by_source(connection, SourceFile, func.count(), func.sum(SourceFile.quarantined))
    superseded = Trajectory.superseded_by.is_not(None)
    trajectories = _by_source(
        connection, Trajectory, func.sum(case((current, 1), else_=0)), func.sum(case((superseded, 1), else_=0))
    )
    frozen: Mapping[int, Sequence[int | None]] = {} if rule is None else _frozen(connection, rule)
    nothing: Sequence[int | None] = (None, None, None) if rule is None else (0, 0, 0)
    names = connection.execute(select(Source.id, Source.name).order_by(Source.name)).all()
    return [
        _row(name, files.get(source_id, (0, 0)), trajectories.get(source_id, (0, 0)), frozen.get(source_id, nothing))
        for source_id, name in names
    ]


def _row(name: str, files: Sequence[int], trajectories: Sequence[int], frozen: Sequence[int | None]) -> SourceStatus:
    (file_count, quarantined), (current, superseded) = files, trajectories
    frozen_count, states, stale = frozen
    return SourceStatus(name, file_count, current, superseded, quarantined, frozen_count, states, stale)


def _frozen(connection: Connection, rule: FreezingRule) -> dict[int, tuple[int, ...]]:
    """Frozen trajectories, their states, and stale states, by source."""
    current = Trajectory.is_current()
    marker = and_(FrozenTrajectory.trajectory_id == Trajectory.id, is_rule(FrozenTrajectory, rule))
    frozen = _by_source(connection, Trajectory, func.count(), joined=(FrozenTrajectory, marker), where=current)
    fresh = and_(current, is_rule(DecisionState, rule))
    states = _by_source(
        connection,
        Trajectory,
        func.sum(case((fresh, 1), else_=0)),
        func.sum(case((fresh, 0), else_=1)),
        joined=(DecisionState, DecisionState.trajectory_id == Trajectory.id),
    )
    return {source: (*frozen.get(source, (0,)), *states.get(source, (0, 0))) for source in {*frozen, *states}}


def _view_names(connection: Connection) -> list[str]:
    return sorted(set(connection.execute(select(FeatureView.name)).scalars()))


def _view(connection: Connection, name: str) -> ViewStatus:
    view = get_view(connection, name)
    mine = and_(StateFeatures.state_id == DecisionState.id, StateFeatures.view_id == view.id)
    joined = (
        select(StateFeatures.outcome, func.count())
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .outerjoin(StateFeatures, mine)
        .where(is_current_state(view.identity.freezing))
        .group_by(StateFeatures.outcome)
    )
    outcomes = {outcome: int(count) for outcome, count in connection.execute(joined)}
    known = outcomes.get("stored", 0) + outcomes.get("excluded", 0)
    versions = select(FeatureView.id).where(FeatureView.name == name)
    of_all = select(func.count()).select_from(StateFeatures).where(StateFeatures.view_id.in_(versions))
    files = select(func.count()).select_from(FeatureFile).where(FeatureFile.view_id == view.id)
    return ViewStatus(
        name=name,
        version=view.version,
        backbone=view.identity.backbone,
        columns=len(view.columns),
        stored=outcomes.get("stored", 0),
        excluded=outcomes.get("excluded", 0),
        waiting=outcomes.get(None, 0),
        stale=connection.execute(of_all).scalar_one() - known,
        files=connection.execute(files).scalar_one(),
    )


def _by_source(
    connection: Connection, table: Any, *measures: Any, joined: tuple[Any, Any] | None = None, where: Any = None
) -> dict[int, tuple[int, ...]]:
    query = select(table.source_id, *measures).select_from(table).group_by(table.source_id)
    if joined is not None:
        query = query.join(joined[0], joined[1])
    if where is not None:
        query = query.where(where)
    return {row[0]: tuple(int(value or 0) for value in row[1:]) for row in connection.execute(query)}


def _counts(connection: Connection, query: Any) -> dict[str, int]:
    return {str(key): int(count) for key, count in sorted(connection.execute(query).all())}


def _without_states(connection: Connection, rule: FreezingRule) -> dict[str, int]:
    """Reasons are counted by their first word: the details differ from one trajectory to the next."""
    query = (
        select(FrozenTrajectory.why_none)
        .join(Trajectory, Trajectory.id == FrozenTrajectory.trajectory_id)
        .where(FrozenTrajectory.why_none.is_not(None), Trajectory.is_current(), is_rule(FrozenTrajectory, rule))
    )
    counts: dict[str, int] = {}
    for (why,) in connection.execute(query):
        reason = why.partition(":")[0]
        counts[reason] = counts.get(reason, 0) + 1
    return dict(sorted(counts.items()))


def _runs(connection: Connection) -> list[dict[str, Any]]:
    columns = (Execution.stage, Execution.subject, Execution.started_at, Execution.finished_at, Execution.counts)
    query = select(*columns).order_by(Execution.started_at.desc(), Execution.id.desc()).limit(LAST_RUNS)
    return [
        {
            "stage": stage,
            "subject": subject,
            "started_at": started_at.isoformat(timespec="seconds"),
            "finished_at": finished_at.isoformat(timespec="seconds") if finished_at else None,
            "counts": counts if finished_at else None,
            "killed": bool(counts and not finished_at and counts.get(KILLED)),
        }
        for stage, subject, started_at, finished_at, counts in connection.execute(query)
    ]


class QuarantinedRow(NamedTuple):
    where: str
    reason: str
    detail: str


def quarantined_items(catalog: Catalog, since: datetime.datetime | None = None) -> list[QuarantinedRow]:
    """Return everything that could not be read, with what to do about it; with `since`, of files that were read after
    it."""
    query = select(QuarantinedItem.location, QuarantinedItem.reason, QuarantinedItem.detail)
    if since is not None:
        read = SourceFile.read_at >= since
        query = query.join(SourceFile, SourceFile.id == QuarantinedItem.source_file_id).where(read)
    with catalog.reading() as connection:
        return [QuarantinedRow(*row) for row in connection.execute(query.order_by(QuarantinedItem.location))]
