"""The origins of a scorer, read state by state: trajectory, frozen state, labels, features.

The plain way, one row after another, and independent of how training frames are read: both must give the same frame.
A state is named by its key, so what a release was made from can be read again after the data has grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, select

from drsr.errors import ArtifactCorrupt, CatalogError
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import Candidate, DecisionState, Source, Trajectory
from drsr.offline.featurize.files import read_file
from drsr.offline.featurize.views import RegisteredView, get_view
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.ingest.splits import Split
from drsr.offline.label.records import LabelerIdentity, recorded_floor
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import LabelRow, StateRow, TrainingFrame, assemble
from drsr.offline.train.examples import StateFeatures as FeatureValues
from drsr.offline.train.frames import labeler_hash

FITTED: tuple[Split, ...] = ("train", "validation")
"""The splits that a scorer and its operating point come from."""


class NamedLabeler(NamedTuple):
    id: int
    name: str
    identity: LabelerIdentity
    noise_floor: dict[str, Any] | None = None
    """Amount of rounding in its harms; None if that was not measured."""


class LabelledSet(NamedTuple):
    mask: int
    direct_saving: int
    deleted_nll: float
    harm: float
    unsafe: bool


class StateRows(NamedTuple):
    """One state, with everything that the catalog knows about it and training used."""

    source: str
    external_id: str
    decision_index: int
    split: Split
    group_key: str
    content_hash: str
    """Hash of the trajectory."""
    blob: str
    """Key of the trajectory's bytes."""
    rule: FreezingRule
    state_key: str
    request_hash: str
    candidate_savings: tuple[int, ...]
    candidate_texts: tuple[str, ...]
    """Hash of each candidate's text."""
    intact_nll: float
    target_hash: str
    labels: tuple[LabelledSet, ...]
    """Labels by mask."""
    prefix_hash: str
    request_tokens: int
    protocol_breaking: int
    feature_file: str
    has_text: bool
    """True if the trajectory's bytes are here; False if it was imported without them."""


def view_of(connection: Connection, view_id: int) -> RegisteredView:
    """Return the feature view that a training run was fitted on."""
    name, version = connection.execute(
        select(FeatureView.name, FeatureView.version).where(FeatureView.id == view_id)
    ).one()
    return get_view(connection, name, version)


def labeler_of(connection: Connection, labeler_id: int) -> NamedLabeler:
    """Return the labeler whose labels it was fitted on."""
    fields = [getattr(Labeler, field) for field in LabelerIdentity._fields]
    name, *identity = connection.execute(select(Labeler.name, *fields).where(Labeler.id == labeler_id)).one()
    return NamedLabeler(labeler_id, name, LabelerIdentity(*identity), recorded_floor(connection, name))


def present_states(
    connection: Connection,
    view: RegisteredView,
    labeler: NamedLabeler,
    splits: Sequence[Split] = FITTED,
    source: str | None = None,
) -> list[str]:
    """Return the keys of the states that a scorer trained now would be fitted on or chosen by, sorted; with `source`,
    those of that source alone."""
    query = (
        select(DecisionState.state_key)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .where(
            Trajectory.is_current(),
            Trajectory.split.in_(splits),
            DecisionState.status == "frozen",
            is_rule(DecisionState, view.identity.freezing),
            and_(StateMeasurement.labeler_id == labeler.id, StateMeasurement.outcome == "labelled"),
            and_(StateFeatures.view_id == view.id, StateFeatures.outcome == "stored"),
        )
    )
    if source is not None:
        query = query.where(Trajectory.source_id.in_(select(Source.id).where(Source.name == source)))
    return sorted(connection.execute(query).scalars())


def read_states(
    connection: Connection, view: RegisteredView, labeler: NamedLabeler, state_keys: Sequence[str]
) -> list[StateRows]:
    """Return the named states, sorted by source, run and decision; raise CatalogError if one is no longer known."""
    rule = [getattr(DecisionState, field) for field in FreezingRule._fields]
    columns = [
        *(DecisionState.id, Source.name, Trajectory.external_id, DecisionState.decision_index, Trajectory.split),
        *(Trajectory.group_key, Trajectory.content_hash, Trajectory.blob, DecisionState.state_key),
        Trajectory.has_text().label("has_text"),
        *(DecisionState.request_hash, StateMeasurement.intact_nll, StateMeasurement.target_hash),
        *(StateFeatures.prefix_hash, StateFeatures.request_tokens, StateFeatures.protocol_breaking, FeatureFile.blob),
    ]
    measured = and_(StateMeasurement.state_id == DecisionState.id, StateMeasurement.labeler_id == labeler.id)
    featurized = and_(StateFeatures.state_id == DecisionState.id, StateFeatures.view_id == view.id)
    query = (
        select(*columns, *rule)
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .join(StateMeasurement, measured)
        .join(StateFeatures, featurized)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .where(among(connection, DecisionState.state_key, state_keys))
    )
    rows = connection.execute(query).all()
    missing = set(state_keys) - {row[8] for row in rows}
    if missing:
        raise CatalogError(
            f"{len(missing)} of {len(set(state_keys))} states are no longer in the catalog with labels and features",
            where=f"first of them: {min(missing)}",
            hint="restore the catalog from a copy",
        )
    candidates = _candidates(connection, state_keys)
    labels = _labels(connection, labeler, state_keys)
    found = []
    for state_id, source, external_id, decision, split, group, content, blob, key, has_text, request, *more in rows:
        savings, texts = zip(*candidates[state_id], strict=True)
        nll, target, prefix, tokens, breaking, file, *of_rule = more
        found.append(
            StateRows(
                *(source, external_id, decision, split, group, content, blob, FreezingRule(*of_rule), key, request),
                *(savings, texts, nll, target, tuple(labels.get(state_id, ())), prefix, tokens, breaking, file),
                has_text=bool(has_text),
            )
        )
    return sorted(found, key=lambda row: row[:3])


def frame_of(
    split: Split,
    view: RegisteredView,
    labeler: NamedLabeler,
    states: Sequence[StateRows],
    features: Mapping[str, NDArray[np.float32]],
) -> TrainingFrame:
    """Return the frame that the states of a split make up."""
    mine = [state for state in states if state.split == split]
    layout_hash, measured_by = view.identity.layout_hash, labeler_hash(labeler.identity)
    return assemble(
        TrainingFrame,
        split,
        layout_hash,
        [
            StateRow(
                state.state_key,
                f"{state.source}/{state.external_id}",
                state.group_key,
                state.split,
                state.request_tokens,
                state.candidate_savings,
            )
            for state in mine
        ],
        [
            LabelRow(
                state.state_key,
                found.mask,
                found.direct_saving,
                not state.protocol_breaking >> found.mask & 1,
                found.harm,
                found.unsafe,
                measured_by,
            )
            for state in mine
            for found in state.labels
        ],
        {state.state_key: FeatureValues(layout_hash, features[state.state_key]) for state in mine},
    )


def read_features(
    artifacts: ArtifactStore, view: RegisteredView, states: Sequence[StateRows]
) -> dict[str, NDArray[np.float32]]:
    """Return the stored features of the states by key, (candidates, columns), checked to be computed from the tokens in
    the catalog."""
    by_file: dict[str, dict[str, str]] = {}
    for state in states:
        by_file.setdefault(state.feature_file, {})[state.state_key] = state.prefix_hash
    found: dict[str, list[NDArray[np.float32]]] = {}
    for file, prefixes in sorted(by_file.items()):
        for key, candidate, prefix, values in zip(*read_file(artifacts, view, file), strict=True):
            if key not in prefixes:
                continue
            if prefix != prefixes[key] or candidate != len(found.setdefault(key, [])):
                raise ArtifactCorrupt(
                    f"the features of state {key} are not those of its tokens and candidates", where=f"file {file}"
                )
            found[key].append(values)
    return {key: np.stack(values) for key, values in found.items()}


def _candidates(connection: Connection, state_keys: Sequence[str]) -> dict[int, list[tuple[int, str]]]:
    columns: list[Any] = [Candidate.state_id, Candidate.direct_saving, Candidate.text_hash]
    query = select(*columns).join(DecisionState, DecisionState.id == Candidate.state_id)
    found: dict[int, list[tuple[int, str]]] = {}
    ordered = query.where(among(connection, DecisionState.state_key, state_keys)).order_by(Candidate.position)
    for state_id, saving, text_hash in connection.execute(ordered):
        found.setdefault(state_id, []).append((saving, text_hash))
    return found


def _labels(connection: Connection, labeler: NamedLabeler, state_keys: Sequence[str]) -> dict[int, list[LabelledSet]]:
    columns = [getattr(Label, field) for field in LabelledSet._fields]
    query = select(Label.state_id, *columns).join(DecisionState, DecisionState.id == Label.state_id)
    mine = query.where(Label.labeler_id == labeler.id, among(connection, DecisionState.state_key, state_keys))
    found: dict[int, list[LabelledSet]] = {}
    for state_id, *values in connection.execute(mine.order_by(Label.mask)):
        found.setdefault(state_id, []).append(LabelledSet(*values))
    return found
