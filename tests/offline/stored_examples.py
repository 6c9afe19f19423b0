"""Made-up states, labels and features in a real catalog and artifact store, as the stages would leave them."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any, NamedTuple

import numpy as np

from drsr.features.layout import Column, ColumnGroup, Unit
from drsr.features.vectors import CandidateFeatures
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.statements import insert_all, insert_new
from drsr.offline.catalog.tables import Candidate, DecisionState, Source, SplitGroup, Trajectory
from drsr.offline.featurize.records import FeaturizedState, PreparedFeatures, prepare_features, record_features
from drsr.offline.featurize.views import RegisteredView, ViewIdentity, register_view
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.ingest.splits import Split
from drsr.offline.label.records import LabelerIdentity, ensure_labeler
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import LabelRow, StateFeatures, StateRow

RULE = FreezingRule("rule", "1" * 64, "renderer", "2" * 64)
LABELER = LabelerIdentity("model", "3" * 64, "float32", RULE.renderer_version, RULE.rule_hash, 100)
LAYOUT = "4" * 64
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Rows(NamedTuple):
    """What `tests.offline.frames.rows` gives."""

    states: list[StateRow]
    labels: list[LabelRow]
    features: dict[str, StateFeatures]

    @property
    def breaking(self) -> dict[str, int]:
        """By state the masks of the sets that break the protocol, as bits."""
        found: dict[str, int] = {}
        for label in self.labels:
            if not label.protocol_safe:
                found[label.state_id] = found.get(label.state_id, 0) | 1 << label.mask
        return found


def columns(count: int) -> list[Column]:
    return [Column(f"feature_{number:04d}", ColumnGroup.STRUCTURAL, Unit.COUNT) for number in range(count)]


def identity(**changes: str) -> ViewIdentity:
    return ViewIdentity(LAYOUT, "model", "3" * 64, "float32", *RULE)._replace(**changes)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def store_examples(
    catalog: Catalog, artifacts: ArtifactStore, split: Split, rows: Rows, *, files: int = 2, features: bool = True
) -> RegisteredView:
    """Write everything down; the features of all states into so many files."""
    count = next(iter(rows.features.values())).values.shape[1]
    with catalog.writing() as connection:
        view = register_view(connection, "default", identity(), columns(count))
        labeler_id = ensure_labeler(connection, "default", LABELER)
        state_ids = _store_states(connection, split, rows.states)
        _store_labels(connection, labeler_id, state_ids, rows.labels)
    if features:
        breaking = rows.breaking
        computed = [featurized_row(state_ids, state, rows, breaking) for state in rows.states]
        for part in np.array_split(np.arange(len(computed)), files):
            prepared = prepare_features(artifacts, view, split, [computed[number] for number in part])
            record(catalog, view, prepared)
    return view


def record(catalog: Catalog, view: RegisteredView, prepared: PreparedFeatures) -> None:
    with catalog.writing() as connection:
        record_features(connection, view, prepared)


def featurized_row(
    state_ids: dict[str, int], state: StateRow, rows: Rows, breaking: dict[str, int] | None = None
) -> FeaturizedState:
    values = rows.features[state.state_id].values
    masks = (rows.breaking if breaking is None else breaking).get(state.state_id, 0)
    result = CandidateFeatures(values, LAYOUT, hashed(f"prefix {state.state_id}"))
    key = state_key(state)
    return FeaturizedState(state_ids[key], key, result.prefix_hash, state.request_tokens, masks, result)


def state_key(state: StateRow) -> str:
    return hashed(f"key {state.state_id}")


def _store_states(connection: Any, split: Split, states: list[StateRow]) -> dict[str, int]:
    """Row numbers by state key."""
    insert_new(connection, Source, [{"id": 1, "name": "made-up"}])
    first = 1 + len(connection.execute(Trajectory.__table__.select()).all())
    names = sorted({state.trajectory_id for state in states}, reverse=True)
    ids = {name: first + number for number, name in enumerate(names)}
    insert_new(connection, SplitGroup, [{"group_key": name, "split": split} for name in names])
    insert_all(connection, Trajectory, [_trajectory(ids[name], name, split) for name in names])
    start = 1 + len(connection.execute(DecisionState.__table__.select()).all())
    order = np.random.default_rng(1).permutation(len(states))  # row numbers say nothing about the order of a frame
    state_ids = {state_key(state): start + int(order[number]) for number, state in enumerate(states)}
    rows = [_state(state_ids, ids, number, state) for number, state in enumerate(states)]
    insert_all(connection, DecisionState, rows)
    insert_all(
        connection,
        Candidate,
        [
            _candidate(state_ids[state_key(state)], position, saving)
            for state in states
            for position, saving in enumerate(state.candidate_savings)
        ],
    )
    return state_ids


def _trajectory(row_number: int, name: str, split: Split) -> dict[str, Any]:
    return {
        "id": row_number,
        "source_id": 1,
        "external_id": name,
        "version": 1,
        "content_hash": hashed(name),
        "blob": hashed(name),
        "protocol": "openai",
        "reader": "made-up",
        "group_key": name,
        "split": split,
        "messages": 9,
        "assistant_messages": 4,
        "tool_calls": 3,
        "created_at": NOW,
    }


def _state(state_ids: dict[str, int], trajectories: dict[str, int], number: int, state: StateRow) -> dict[str, Any]:
    return {
        "id": state_ids[state_key(state)],
        "trajectory_id": trajectories[state.trajectory_id],
        "decision_index": 1 + number,
        "ordinal": number,
        "quantile": 1.0,
        **RULE._asdict(),
        "request_hash": hashed(state.state_id),
        "state_key": state_key(state),
        "candidates": len(state.candidate_savings),
        "status": "frozen",
        "frozen_at": NOW,
    }


def _candidate(state_id: int, position: int, saving: int) -> dict[str, Any]:
    return {
        "state_id": state_id,
        "position": position,
        "step_index": position,
        "kind": "tool_exchange",
        "component_index": 1,
        "direct_saving": saving,
        "token_spans": [[10 * position, 10 * position + 5]],
        "text_hash": hashed(f"{state_id}/{position}"),
    }


def _store_labels(connection: Any, labeler_id: int, state_ids: dict[str, int], labels: list[LabelRow]) -> None:
    ids = {label.state_id: state_ids[hashed(f"key {label.state_id}")] for label in labels}
    measurement = {
        "labeler_id": labeler_id,
        "outcome": "labelled",
        "intact_nll": 1.0,
        "target_tokens": 5,
        "target_hash": "5" * 64,
        "context_tokens": 100,
        "code_version": "0",
        "method": "direct",
        "measured_at": NOW,
    }
    insert_all(connection, StateMeasurement, [measurement | {"state_id": state_id} for state_id in ids.values()])
    insert_all(
        connection,
        Label,
        [
            {
                "state_id": ids[label.state_id],
                "labeler_id": labeler_id,
                "mask": label.mask,
                "cardinality": label.mask.bit_count(),
                "direct_saving": label.direct_saving,
                "deleted_nll": 1.0 + label.harm,
                "harm": label.harm,
                "unsafe": label.unsafe,
            }
            for label in labels
        ],
    )
