"""The recorded runs of a split whose labelled states are replayed. Handing them out is written down as a split read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import and_, select

import drsr
from drsr.backbone.catalogue import load_backbone
from drsr.contracts import Backbone
from drsr.errors import FrameError, InputError
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.frozen import FreezingRule, is_rule
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.statements import insert_all
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.evaluation.replay import RecordedRun
from drsr.offline.feature_views import RegisteredView, get_view
from drsr.offline.freeze import freezing_rule
from drsr.offline.frozen_rows import TrajectoryItem, load_states
from drsr.offline.labels import LabelerIdentity, configured_identity, find_labeler
from drsr.offline.splits import Split
from drsr.offline.target_nll import TargetNll
from drsr.settings import Settings
from drsr.view import Caps, caps_for

NO_DOMAIN = "no domain"


class RunRow(NamedTuple):
    """A trajectory with labelled states, as the catalog has it."""

    id: int
    blob: str
    split: Split
    source: str
    external_id: str
    task: str | None
    domain: str | None
    states: frozenset[int]
    """Row numbers of its labelled states."""

    @property
    def name(self) -> str:
        return f"{self.source}/{self.external_id}"


class Measuring(NamedTuple):
    """What measures on recorded runs, as the labels were measured."""

    backbone: Backbone
    caps: Caps
    freezing: FreezingRule
    identity: LabelerIdentity
    scorer: TargetNll


def measuring(settings: Settings) -> Measuring:
    """Load the language model of the settings."""
    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    caps = caps_for(backbone.window)
    identity = configured_identity(settings.backbone, settings.dtype, caps)
    scorer = TargetNll(backbone, memory_mb=int(settings.label_memory_mb))
    return Measuring(backbone, caps, freezing_rule(backbone.tokenizer, caps), identity, scorer)


def open_runs(
    catalog: Catalog,
    tools: Measuring,
    split: Split,
    *,
    labeler: str,
    view: str,
    source: str | None = None,
    limit: int | None = None,
) -> list[RunRow]:
    """The runs to measure on. Asking for them is written down, and InputError if the labeler has measured nothing."""
    with catalog.reading() as connection:
        labeler_id = find_labeler(connection, labeler, tools.identity)
        found = get_view(connection, view)
    if labeler_id is None:
        raise InputError(f"labeler {labeler!r} has measured nothing yet", hint="drsr label")
    rows = runs_of(catalog, split, labeler_id, tools.freezing, source)[:limit]
    record_read(catalog, found, labeler_id, split, rows)
    return rows


def runs_of(
    catalog: Catalog, split: Split, labeler_id: int, freezing: FreezingRule, source: str | None = None
) -> list[RunRow]:
    """Current trajectories of a split with labelled states, in an order that depends on their names only."""
    mine = and_(StateMeasurement.state_id == DecisionState.id, StateMeasurement.labeler_id == labeler_id)
    columns = (
        *(Trajectory.id, Trajectory.blob, Trajectory.split, Source.name),
        *(Trajectory.external_id, Trajectory.task, Trajectory.domain),
    )
    query = (
        select(*columns, DecisionState.id)
        .join(Source, Source.id == Trajectory.source_id)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, mine)
        .where(
            Trajectory.superseded_by.is_(None),
            Trajectory.split == split,
            is_rule(DecisionState, freezing),
            StateMeasurement.outcome == "labelled",
        )
    )
    if source is not None:
        query = query.where(Source.name == source)
    states: dict[tuple[Any, ...], set[int]] = {}
    with catalog.reading() as connection:
        for *run, state in connection.execute(query):
            states.setdefault(tuple(run), set()).add(state)
    if not states:
        raise FrameError("there are no labelled states", where=f"split {split}", hint="run drsr label first")
    rows = [RunRow._make((*run, frozenset(ids))) for run, ids in states.items()]
    return sorted(rows, key=lambda row: (row.source, row.external_id))


def record_read(catalog: Catalog, view: RegisteredView, labeler_id: int, split: Split, rows: list[RunRow]) -> None:
    """Evaluation may read every split; that it did is kept beside the reads of training and calibration."""
    read = {
        "view_id": view.id,
        "labeler_id": labeler_id,
        "split": split,
        "purpose": "evaluate",
        "states": sum(len(row.states) for row in rows),
        "labels": 0,
        "excluded": 0,
        "code_version": drsr.__version__,
        "read_at": datetime.datetime.now(datetime.UTC),
    }
    with catalog.writing() as connection:
        insert_all(connection, SplitRead, [read])


def load_runs(
    catalog: Catalog,
    artifacts: ArtifactStore,
    rows: list[RunRow],
    tools: Measuring,
) -> Iterator[RecordedRun]:
    """One run at a time: memory holds one trajectory, however many there are."""
    for row in rows:
        item = TrajectoryItem(row.id, row.blob, row.split, "")
        states = load_states(catalog, artifacts, item, tools.backbone.tokenizer, tools.caps, tools.freezing)
        labelled = [state for state in states if state.id in row.states]
        task = row.task or row.external_id
        yield RecordedRun(row.name, f"{row.source}/{task}", row.domain or NO_DOMAIN, labelled)
