"""The stored features of single states, by identity: for audits and for looking at one. Frames read whole splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, select

from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.files import FeatureRows, read_file
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.freeze.rows import TrajectoryItem
from drsr.offline.store.artifacts import ArtifactStore


class StoredState(NamedTuple):
    """A state whose features are stored."""

    state_id: int
    state_key: str
    prefix_hash: str
    blob: str
    trajectory: TrajectoryItem
    has_text: bool
    """True if its run was read here, not only imported."""


def stored_states(
    connection: Connection, view: RegisteredView, state_keys: Sequence[str] | None = None
) -> list[StoredState]:
    """Return every state of a current trajectory with features in the view, in an order that depends on content only.

    `state_keys` asks for these instead, whichever version of its trajectory each is of: a release was made from states
    whose runs may have grown since.
    """
    wanted: ColumnElement[bool] = Trajectory.is_current()
    if state_keys is not None:
        wanted = among(connection, DecisionState.state_key, state_keys)
    query = (
        select(
            StateFeatures.state_id,
            DecisionState.state_key,
            StateFeatures.prefix_hash,
            FeatureFile.blob,
            Trajectory.id,
            Trajectory.blob,
            Trajectory.split,
            Trajectory.has_text(),
        )
        .join(DecisionState, DecisionState.id == StateFeatures.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .where(StateFeatures.view_id == view.id, wanted)
        .order_by(DecisionState.state_key)
    )
    return [
        StoredState(state_id, key, prefix, blob, TrajectoryItem(number, trajectory_blob, split, ""), bool(has_text))
        for state_id, key, prefix, blob, number, trajectory_blob, split, has_text in connection.execute(query)
    ]


class FeatureReader:
    """Read the features of states; the last file stays open, because the next state is often in it, too."""

    def __init__(self, artifacts: ArtifactStore, view: RegisteredView) -> None:
        self._artifacts = artifacts
        self._view = view
        self._kept: tuple[str, FeatureRows] | None = None

    def matrix(self, state: StoredState) -> NDArray[np.float32]:
        """Return [candidates, columns] as they are stored."""
        if self._kept is None or self._kept[0] != state.blob:
            self._kept = state.blob, read_file(self._artifacts, self._view, state.blob)
        rows = self._kept[1]
        mine = [number for number, key in enumerate(rows.state_keys) if key == state.state_key]
        prefixes = {rows.prefix_hashes[number] for number in mine}
        if prefixes != {state.prefix_hash} or rows.candidates[mine].tolist() != list(range(len(mine))):
            raise ArtifactCorrupt(
                f"the rows of state {state.state_key} are not those that the catalog says",
                where=f"file {state.blob} of feature view {self._view.shown}",
            )
        return rows.matrix[mine]
