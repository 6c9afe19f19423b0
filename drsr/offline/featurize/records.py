"""Features in the catalog: which states still wait for theirs, and where they are stored or why there are none.

Two steps, so that a crash in between loses nothing and doubles nothing: the file first, then the rows that name it, in
one transaction with the other outcomes of the states. A file that no row names is never read.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, select

import drsr
from drsr.decide.candidates import DecisionState as FrozenDecision
from drsr.decide.deletion_sets import DeletionSet
from drsr.errors import EmptySpan, FeatureError, MisalignedSpan, NonFiniteFeature, OutsideView
from drsr.features.spans import prefix_hash
from drsr.features.vectors import CandidateFeatures
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.statements import insert_new, storable_text
from drsr.offline.featurize.files import FeatureBlock, write_file
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.selection import Selection, waiting_states
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore

REASONS: dict[type[FeatureError], str] = {
    EmptySpan: "empty_span",
    OutsideView: "outside_view",
    MisalignedSpan: "misaligned_span",
    NonFiniteFeature: "non_finite",
}
"""Errors of a single state. Any other FeatureError concerns all states, and stops the stage."""


class FeatureExclusion(NamedTuple):
    """The reason why a state has no features. An expected outcome, not an error."""

    reason: str
    detail: str

    @classmethod
    def of(cls, error: FeatureError) -> FeatureExclusion:
        """Return the outcome for an error of this state; raise the error if it concerns more."""
        reason = REASONS.get(type(error))
        if reason is None:
            raise error
        return cls(reason, str(error))


class FeaturizedState(NamedTuple):
    """The result for one state."""

    state_id: int
    state_key: str
    prefix_hash: str
    request_tokens: int
    protocol_breaking: int
    """Bit m is set when deleting the set with mask m would break a rule of the protocol."""
    result: CandidateFeatures | FeatureExclusion


class PreparedFeatures(NamedTuple):
    """Features of states of one split, in a file that no row names yet."""

    split: Split
    blob: str | None
    """Key of the file; None if none of the states has features."""
    states: tuple[FeaturizedState, ...]


def featurized(
    state_id: int,
    state_key: str,
    state: FrozenDecision,
    sets: Sequence[DeletionSet],
    result: CandidateFeatures | FeatureExclusion,
) -> FeaturizedState:
    """Return a state's features with what else is known before the decision: `sets` are all its deletion sets."""
    breaking = sum(1 << found.mask for found in sets if found.violations)
    return FeaturizedState(state_id, state_key, prefix_hash(state), len(state.rendering), breaking, result)


def prepare_features(
    artifacts: ArtifactStore, view: RegisteredView, split: Split, states: Sequence[FeaturizedState]
) -> PreparedFeatures:
    """Store the features of some states of one split."""
    blocks = [
        FeatureBlock(state.state_key, state.prefix_hash, state.result.layout_hash, state.result.matrix)
        for state in states
        if isinstance(state.result, CandidateFeatures)
    ]
    blob = write_file(artifacts, view, blocks) if blocks else None
    return PreparedFeatures(split, blob, tuple(states))


def record_features(
    connection: Connection, view: RegisteredView, prepared: PreparedFeatures, *, method: str = "featurize"
) -> None:
    """Record where the features of some states are stored, inside the caller's write transaction. Repeating it changes
    nothing."""
    there = recorded(connection, view, [state.state_id for state in prepared.states])
    new = [state for state in prepared.states if state.state_id not in there]
    stored = [state for state in new if isinstance(state.result, CandidateFeatures)]
    file_id = _file_id(connection, view, prepared, stored) if stored else None
    now = datetime.datetime.now(datetime.UTC)
    shared = {"view_id": view.id, "method": method, "code_version": drsr.__version__, "computed_at": now}
    insert_new(connection, StateFeatures, [shared | _row(state, file_id) for state in new])


def recorded(connection: Connection, view: RegisteredView, state_ids: Sequence[int]) -> set[int]:
    """Return those states that the view already records."""
    return set(connection.execute(_RECORDED, {"view": view.id, "states": list(state_ids)}).scalars())


_RECORDED = select(StateFeatures.state_id).where(
    StateFeatures.view_id == bindparam("view"), StateFeatures.state_id.in_(bindparam("states", expanding=True))
)
_FILE = select(FeatureFile.id).where(FeatureFile.view_id == bindparam("view"), FeatureFile.blob == bindparam("blob"))


def pending_features(
    columns: Sequence[Any], view_id: int | None, freezing: FreezingRule, part: Selection
) -> Select[Any]:
    """Return frozen states of current trajectories without features in this view."""
    return waiting_states(columns, freezing, part, StateFeatures.view_id, view_id)


def _file_id(
    connection: Connection, view: RegisteredView, prepared: PreparedFeatures, stored: Sequence[FeaturizedState]
) -> int:
    row = {
        "view_id": view.id,
        "split": prepared.split,
        "blob": prepared.blob,
        "states": len(stored),
        "rows": sum(len(state.result.matrix) for state in stored if isinstance(state.result, CandidateFeatures)),
        "written_at": datetime.datetime.now(datetime.UTC),
    }
    insert_new(connection, FeatureFile, [row])
    file_id: int = connection.execute(_FILE, {"view": view.id, "blob": prepared.blob}).scalar_one()
    return file_id


def _row(state: FeaturizedState, file_id: int | None) -> dict[str, Any]:
    excluded = state.result if isinstance(state.result, FeatureExclusion) else None
    return {
        "state_id": state.state_id,
        "outcome": "stored" if excluded is None else "excluded",
        "reason": None if excluded is None else excluded.reason,
        "detail": None if excluded is None else storable_text(excluded.detail),
        "prefix_hash": state.prefix_hash,
        "request_tokens": state.request_tokens,
        "protocol_breaking": state.protocol_breaking,
        "file_id": None if excluded is not None else file_id,
    }
