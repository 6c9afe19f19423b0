"""Frames of examples from the store: states, candidates, features, labels and splits, joined by identity.

    frame = get_training_frame(catalog, artifacts, split="train", purpose="train")

Fitting and calibration get a `TrainingFrame` of `train` or `validation`; only evaluation gets the test split, as an
`ExampleFrame`, which nothing can be fitted on. Every read of a frame is recorded in `split_read`.

Point in time by construction: the features of a state carry the hash of the exact tokens they were computed from, and a
row whose hash is not the one the catalog recorded is refused. A labelled state that still waits for its features is an
error, and one whose features cannot be had is left out and counted; nothing is ever filled in.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, and_, select

import drsr
from drsr.errors import ArtifactCorrupt, FeaturesMissing, FrameError, LabelersMixed, SettingsError, SplitRefused
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.reads import record_reads
from drsr.offline.catalog.tables import SPLITS, Candidate, DecisionState, Source, Trajectory
from drsr.offline.featurize.files import read_files
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, get_view
from drsr.offline.freeze.records import is_rule
from drsr.offline.ingest.splits import Split
from drsr.offline.label.records import LabelerIdentity
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import ExampleFrame, TrainingFrame
from drsr.scorer.network import MAX_CANDIDATES

Purpose = Literal["train", "calibrate", "evaluate"]


class _State(NamedTuple):
    """One labelled state, as the catalog has it."""

    source: str
    external_id: str
    decision: int
    group: str
    id: int
    state_key: str
    candidates: int
    outcome: str | None
    """Outcome of the state; None while it waits for its features."""
    prefix_hash: str
    request_tokens: int
    protocol_breaking: int
    blob: str


class _Labeler(NamedTuple):
    id: int
    hash: str


class _Part(NamedTuple):
    """The labelled states that a frame is of."""

    view: RegisteredView
    labeler: _Labeler
    split: Split
    source: str | None
    """None: of all sources."""

    @property
    def where(self) -> str:
        return f"split {self.split}" + (f" of source {self.source}" if self.source is not None else "")


@overload
def get_training_frame(
    catalog: Catalog,
    artifacts: ArtifactStore,
    view: str = DEFAULT_VIEW,
    *,
    split: Split,
    purpose: Literal["train", "calibrate"],
    labeler: str = "default",
    source: str | None = None,
) -> TrainingFrame: ...


@overload
def get_training_frame(
    catalog: Catalog,
    artifacts: ArtifactStore,
    view: str = DEFAULT_VIEW,
    *,
    split: Split,
    purpose: Literal["evaluate"],
    labeler: str = "default",
    source: str | None = None,
) -> ExampleFrame: ...


def get_training_frame(
    catalog: Catalog,
    artifacts: ArtifactStore,
    view: str = DEFAULT_VIEW,
    *,
    split: Split,
    purpose: Purpose,
    labeler: str = "default",
    source: str | None = None,
) -> ExampleFrame:
    """Return all labelled deletion sets of a split, or of one source in it, with the features of their states.

    Their order depends on content.

    Purposes `train` and `calibrate` get a TrainingFrame of `train` or `validation` and are refused `test`; `evaluate`
    gets an ExampleFrame of any split. The read is recorded, a refusal is not.
    """
    _refuse(split, purpose)
    with catalog.reading() as connection:
        found = get_view(connection, view)
        measured_by = _labeler(connection, labeler, found)
        part = _Part(found, measured_by, split, source)
        states, excluded = _states(connection, part)
        savings = _savings(connection, part, states)
        labels = _labels(connection, part, states)
    kind = ExampleFrame if purpose == "evaluate" else TrainingFrame
    frame = kind(
        split=split,
        layout_hash=found.identity.layout_hash,
        labeler=measured_by.hash,
        state_ids=tuple(state.state_key for state in states),
        trajectory_ids=tuple(f"{state.source}/{state.external_id}" for state in states),
        group_ids=tuple(state.group for state in states),
        request_tokens=np.array([state.request_tokens for state in states], dtype=np.int64),
        candidate_counts=np.array([state.candidates for state in states], dtype=np.int64),
        candidate_savings=savings,
        features=_features(artifacts, found, states),
        **labels,
    )
    with catalog.writing() as connection:
        record_reads(connection, [_read(found, measured_by, purpose, frame, excluded)])
    return frame


def labeler_hash(identity: LabelerIdentity) -> str:
    """Return the SHA-256 over all that a labeler's numbers depend on: the name by which a frame, and everything fitted
    on it, refers to it."""
    return hashlib.sha256(orjson.dumps(identity.facts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _refuse(split: str, purpose: str) -> None:
    if purpose not in get_args(Purpose):
        raise SettingsError(f"{purpose!r} is not a purpose of a frame", hint=f"one of {', '.join(get_args(Purpose))}")
    if split not in SPLITS:
        raise SettingsError(f"{split!r} is not a split", hint=f"one of {', '.join(SPLITS)}")
    if split == "test" and purpose != "evaluate":
        raise SplitRefused(
            f"the test split cannot be read to {purpose}",
            hint="train on `train`, calibrate on `validation`; `test` is for the final evaluation only",
        )


def _labeler(connection: Connection, name: str, view: RegisteredView) -> _Labeler:
    fields = [getattr(Labeler, field) for field in LabelerIdentity._fields]
    row = connection.execute(select(Labeler.id, *fields).where(Labeler.name == name)).one_or_none()
    if row is None:
        known = sorted(connection.execute(select(Labeler.name)).scalars())
        hint = f"the labelers are {', '.join(known)}" if known else "there is none yet: drsr label"
        raise FrameError(f"no labeler is called {name!r}", hint=hint)
    identity = LabelerIdentity(*row[1:])
    for field in ("rule_hash", "renderer_version"):
        there, here = getattr(identity, field), getattr(view.identity, field)
        if there != here:
            raise LabelersMixed(
                f"labeler {name!r} measures states of {field} {there}, feature view {view.shown} holds those of {here}",
                hint="label again under a new name: drsr label --labeler NAME",
            )
    return _Labeler(row[0], labeler_hash(identity))


def _labelled(columns: list[Any], part: _Part) -> Select[Any]:
    """Labelled states of current trajectories of a part, frozen under the view's rule."""
    mine = and_(StateMeasurement.state_id == DecisionState.id, StateMeasurement.labeler_id == part.labeler.id)
    query = (
        select(*columns)
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(StateMeasurement, mine)
        .where(
            Trajectory.is_current(),
            Trajectory.split == part.split,
            DecisionState.status == "frozen",
            is_rule(DecisionState, part.view.identity.freezing),
            StateMeasurement.outcome == "labelled",
        )
    )
    if part.source is not None:
        query = query.where(Trajectory.source_id.in_(select(Source.id).where(Source.name == part.source)))
    return query


def _states(connection: Connection, part: _Part) -> tuple[list[_State], int]:
    """Return the states with features, sorted by source, run and decision; and how many were excluded."""
    columns = [
        *(Source.name, Trajectory.external_id, DecisionState.decision_index, Trajectory.group_key),
        *(DecisionState.id, DecisionState.state_key, DecisionState.candidates),
        *(StateFeatures.outcome, StateFeatures.prefix_hash, StateFeatures.request_tokens),
        *(StateFeatures.protocol_breaking, FeatureFile.blob),
    ]
    view = part.view
    query = (
        _labelled(columns, part)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(StateFeatures, and_(StateFeatures.state_id == DecisionState.id, StateFeatures.view_id == view.id))
        .outerjoin(FeatureFile, FeatureFile.id == StateFeatures.file_id)
    )
    # Sorted here: the two databases do not sort text alike.
    found = sorted(_State(*row) for row in connection.execute(query))
    waiting = [state for state in found if state.outcome is None]
    if waiting:
        raise FeaturesMissing(
            f"{len(waiting)} of {len(found)} labelled states have no features in feature view {view.shown}",
            where=f"{part.where}, first state {waiting[0].state_key}",
            hint="drsr featurize",
        )
    stored = [state for state in found if state.outcome == "stored"]
    if not stored:
        hint = "run drsr label first" if part.source is None else "drsr status names the sources; drsr label --source"
        raise FrameError("there are no labelled states", where=part.where, hint=hint)
    return stored, len(found) - len(stored)


def _savings(connection: Connection, part: _Part, states: list[_State]) -> NDArray[np.int64]:
    """Return the saving of each candidate alone: (states, 4), zero beyond the state's candidates."""
    columns = [Candidate.state_id, Candidate.position, Candidate.direct_saving]
    query = _labelled(columns, part).join(Candidate, Candidate.state_id == DecisionState.id)
    table, place = _with_places(connection, query, states)
    savings = np.zeros((len(states), MAX_CANDIDATES), dtype=np.int64)
    savings[place, table[:, 1].astype(np.int64)] = table[:, 2]
    return savings


def _labels(connection: Connection, part: _Part, states: list[_State]) -> dict[str, Any]:
    """Return the arrays of the frame that have one entry per labelled set, ordered by state and mask."""
    columns = [Label.state_id, Label.mask, Label.direct_saving, Label.harm, Label.unsafe]
    mine = and_(Label.state_id == DecisionState.id, Label.labeler_id == part.labeler.id)
    table, place = _with_places(connection, _labelled(columns, part).join(Label, mine), states)
    mask = table[:, 1].astype(np.int64)
    order = np.lexsort((mask, place))
    table, place, mask = table[order], place[order], mask[order]
    breaking = np.array([state.protocol_breaking for state in states], dtype=np.int64)
    return {
        "state": place,
        "mask": mask,
        "direct_saving": table[:, 2].astype(np.int64),
        "protocol_safe": (breaking[place] >> mask) & 1 == 0,
        "harm": table[:, 3],
        "unsafe": table[:, 4].astype(np.bool_),
    }


def _with_places(
    connection: Connection, query: Select[Any], states: list[_State]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the rows whose first column is one of the states, as numbers, and the index of that state. All fit a
    double."""
    rows = connection.execute(query).all()
    table = np.array([tuple(row) for row in rows], dtype=np.float64).reshape(len(rows), len(query.selected_columns))
    ids = np.array([state.id for state in states], dtype=np.int64)
    order = np.argsort(ids)
    wanted = table[:, 0].astype(np.int64)
    place = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    known = ids[place] == wanted
    return table[known], place[known]


def _features(artifacts: ArtifactStore, view: RegisteredView, states: list[_State]) -> NDArray[np.float32]:
    """(states, 4, columns), zero beyond a state's candidates: all of those have a row, or it is an error."""
    features = np.zeros((len(states), MAX_CANDIDATES, len(view.columns)), dtype=np.float32)
    filled = np.zeros((len(states), MAX_CANDIDATES), dtype=np.int64)
    by_file: dict[str, dict[str, int]] = {}
    for number, state in enumerate(states):
        by_file.setdefault(state.blob, {})[state.state_key] = number
    blobs = sorted(by_file)
    for blob, rows in zip(blobs, read_files(artifacts, view, blobs), strict=True):
        wanted = by_file[blob]
        place = np.array([wanted.get(key, -1) for key in rows.state_keys], dtype=np.int64)
        (used,) = np.nonzero(place >= 0)
        for row in used:
            if rows.prefix_hashes[row] != states[place[row]].prefix_hash:
                raise ArtifactCorrupt(
                    f"state {rows.state_keys[row]} was computed from other tokens than the catalog says",
                    where=f"file {blob} of feature view {view.shown}",
                )
        features[place[used], rows.candidates[used]] = rows.matrix[used]
        np.add.at(filled, (place[used], rows.candidates[used]), 1)
    counts = np.array([state.candidates for state in states])
    wrong = (filled != (np.arange(MAX_CANDIDATES) < counts[:, None])).any(axis=1)
    if wrong.any():
        state = states[int(np.flatnonzero(wrong)[0])]
        raise ArtifactCorrupt(
            f"state {state.state_key} has {state.candidates} candidates, the file has not one row for each",
            where=f"file {state.blob} of feature view {view.shown}",
        )
    return features


def _read(
    view: RegisteredView, labeler: _Labeler, purpose: Purpose, frame: ExampleFrame, excluded: int
) -> dict[str, Any]:
    return {
        "view_id": view.id,
        "labeler_id": labeler.id,
        "split": frame.split,
        "purpose": purpose,
        "states": len(frame.state_ids),
        "labels": len(frame),
        "excluded": excluded,
        "code_version": drsr.__version__,
        "read_at": datetime.datetime.now(datetime.UTC),
    }
