"""The recorded runs of a split whose labelled states are replayed. Reading them is recorded as a split read."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, select

import drsr
from drsr.backbone.catalogue import load_backbone
from drsr.errors import FrameError, InputError
from drsr.offline.bench.replay.stage import RecordedRun
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.reads import record_reads
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.views import RegisteredView, get_view
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.ingest.absent_texts import absent_texts
from drsr.offline.ingest.splits import Split
from drsr.offline.label.records import LabelerIdentity, configured_identity, find_labeler
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import Backbone
from drsr.request.view import Caps, caps_for
from drsr.settings import Settings

NO_DOMAIN = "no domain"


class RunRow(NamedTuple):
    """A trajectory with labelled states, as the catalog has it."""

    id: int
    blob: str
    split: Split
    source: str
    external_id: str
    group: str
    """Unit that no split divides: the task, or the subject of several tasks. Its runs are not independent."""
    domain: str | None
    states: Mapping[int, str]
    """Keys of its labelled states, by their row numbers."""

    @property
    def name(self) -> str:
        return f"{self.source}/{self.external_id}"

    @property
    def domain_name(self) -> str:
        return self.domain or NO_DOMAIN


class Measuring(NamedTuple):
    """The measure of recorded runs, the same that labels use."""

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
    """Return the runs to measure on, in an order whose beginnings all spread over tasks and domains; `limit` takes one.
    The request is recorded; raise InputError if the labeler has measured nothing."""
    with catalog.reading() as connection:
        labeler_id = find_labeler(connection, labeler, tools.identity)
        found = get_view(connection, view)
    if labeler_id is None:
        raise InputError(f"labeler {labeler!r} has measured nothing yet", hint="drsr label")
    rows = spread(runs_of(catalog, split, labeler_id, tools.freezing, source))[:limit]
    record_read(catalog, found, labeler_id, split, rows)
    return rows


def with_earlier(
    catalog: Catalog, tools: Measuring, split: Split, *, labeler: str, rows: Sequence[RunRow], earlier: Collection[str]
) -> set[str]:
    """Return the keys of the states of these runs, and of those states of an earlier replay that a replay of the whole
    split would also have. A journal can be made source by source, and drops what has been superseded."""
    with catalog.reading() as connection:
        labeler_id = find_labeler(connection, labeler, tools.identity)
    assert labeler_id is not None  # open_runs has handed out `rows`
    everything = runs_of(catalog, split, labeler_id, tools.freezing)
    return _keys(rows) | (_keys(everything) & set(earlier))


def _keys(rows: Iterable[RunRow]) -> set[str]:
    return {key for row in rows for key in row.states.values()}


def spread(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the first run of every task, then the second, and so on; tasks of different domains by turns. Trials of
    one task say nothing about others, so the first N runs should not be of one task."""
    trials: dict[str, int] = {}
    tasks: dict[str, dict[str, int]] = {}
    places: list[tuple[int, int, RunRow]] = []
    for row in sorted(rows, key=lambda row: (row.source, row.external_id)):
        trial = trials.setdefault(row.group, 0)
        trials[row.group] += 1
        known = tasks.setdefault(row.domain_name, {})
        places.append((trial, known.setdefault(row.group, len(known)), row))
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


def runs_of(
    catalog: Catalog, split: Split, labeler_id: int, freezing: FreezingRule, source: str | None = None
) -> list[RunRow]:
    """Return current trajectories of a split with labelled states, in an order that depends on their names only."""
    mine = and_(StateMeasurement.state_id == DecisionState.id, StateMeasurement.labeler_id == labeler_id)
    columns = (
        *(Trajectory.id, Trajectory.blob, Trajectory.split, Source.name),
        *(Trajectory.external_id, Trajectory.group_key, Trajectory.domain),
    )
    query = (
        select(*columns, DecisionState.id, DecisionState.state_key)
        .join(Source, Source.id == Trajectory.source_id)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, mine)
        .where(
            Trajectory.is_current(),
            Trajectory.has_text(),
            Trajectory.split == split,
            is_rule(DecisionState, freezing),
            StateMeasurement.outcome == "labelled",
        )
    )
    if source is not None:
        query = query.where(Source.name == source)
    states: dict[tuple[Any, ...], dict[int, str]] = {}
    with catalog.reading() as connection:
        for *run, state, key in connection.execute(query):
            states.setdefault(tuple(run), {})[state] = key
    if not states:
        with catalog.reading() as connection:
            absent = absent_texts(connection)
        if absent:
            what = f"there are no labelled states with a text: {absent.said}"
            raise FrameError(what, where=f"split {split}", hint=absent.hint)
        raise FrameError("there are no labelled states", where=f"split {split}", hint="run drsr label first")
    rows = [RunRow._make((*run, keys)) for run, keys in states.items()]
    return sorted(rows, key=lambda row: (row.source, row.external_id))


def record_read(catalog: Catalog, view: RegisteredView, labeler_id: int, split: Split, rows: list[RunRow]) -> None:
    """Evaluation may read every split; its read is recorded with those of training and calibration."""
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
        record_reads(connection, [read])


def load_runs(
    catalog: Catalog,
    artifacts: ArtifactStore,
    rows: Iterable[RunRow],
    tools: Measuring,
) -> Iterator[RecordedRun]:
    """Yield one run at a time: memory holds one trajectory, however many there are."""
    for row in rows:
        item = TrajectoryItem(row.id, row.blob, row.split, "")
        states = load_states(catalog, artifacts, item, tools.backbone.tokenizer, tools.caps, tools.freezing)
        labelled = [state for state in states if state.id in row.states]
        yield RecordedRun(row.name, row.group, row.domain_name, labelled)
