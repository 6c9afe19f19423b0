"""The view `wide` where both of its parts are stored: joined row by row, without a language model."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import and_
from sqlalchemy.orm import aliased

from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import Kind
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.files import read_file
from drsr.offline.featurize.records import FeaturizedState, pending_features, prepare_features, record_features
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, find_view
from drsr.offline.freeze.selection import Selection
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore


def join_stored(
    catalog: Catalog, artifacts: ArtifactStore, wide: RegisteredView, part: Selection
) -> list[FeaturizedState]:
    """Fill the view `wide` with the states that the full view and the view `window` both hold. Again: no change."""
    with catalog.reading() as connection:
        full, window = (find_view(connection, name) for name in (DEFAULT_VIEW, Kind.WINDOW.value))
    if full is None or window is None or not (_is_part(full, wide) and _is_part(window, wide)):
        return []
    if (*full.columns, *window.columns) != wide.columns:
        return []
    one, other = aliased(StateFeatures), aliased(StateFeatures)
    file_of_one, file_of_other = aliased(FeatureFile), aliased(FeatureFile)
    fields = (one.state_id, DecisionState.state_key, one.prefix_hash, one.request_tokens, one.protocol_breaking)
    query = (
        pending_features(
            [*fields, Trajectory.split, file_of_one.blob, file_of_other.blob],
            wide.id,
            wide.identity.freezing,
            part._replace(without_texts=True),
        )
        .join(one, and_(one.state_id == DecisionState.id, one.view_id == full.id))
        .join(other, and_(other.state_id == DecisionState.id, other.view_id == window.id))
        .join(file_of_one, file_of_one.id == one.file_id)
        .join(file_of_other, file_of_other.id == other.file_id)
        .where(one.prefix_hash == other.prefix_hash)
        .order_by(file_of_one.blob, DecisionState.state_key)
    )
    with catalog.reading() as connection:
        rows = connection.execute(query).tuples().all()
    narrow: dict[str, NDArray[np.float32]] = {}
    for blob in {row[-1] for row in rows}:
        narrow |= _matrices(artifacts, window, blob)  # a few columns: all of them at once take little room
    joined = []
    for blob, group in groupby(rows, key=lambda row: row[-2]):
        matrices = _matrices(artifacts, full, blob)
        by_split: defaultdict[Split, list[FeaturizedState]] = defaultdict(list)
        for state_id, key, prefix, tokens, breaking, split, *_ in group:
            matrix = np.concatenate([matrices[key], narrow[key]], axis=1)
            features = CandidateFeatures(matrix, wide.identity.layout_hash, prefix)
            by_split[split].append(FeaturizedState(state_id, key, prefix, tokens, breaking, features))
        for split, states in by_split.items():
            prepared = prepare_features(artifacts, wide, split, states)
            with catalog.writing() as connection:
                record_features(connection, wide, prepared, method="join")
            joined += states
    return joined


def _is_part(view: RegisteredView, wide: RegisteredView) -> bool:
    """Return whether it is of the same language model, and of states frozen under the same rule."""
    return view.identity._replace(layout_hash="", backbone="") == wide.identity._replace(layout_hash="", backbone="")


def _matrices(artifacts: ArtifactStore, view: RegisteredView, blob: str) -> dict[str, NDArray[np.float32]]:
    """Return the matrix of every state in a file."""
    rows = read_file(artifacts, view, blob)
    numbers = groupby(range(len(rows.state_keys)), key=lambda number: rows.state_keys[number])
    return {key: rows.matrix[list(mine)] for key, mine in numbers}
