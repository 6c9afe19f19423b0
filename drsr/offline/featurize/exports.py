"""Features that travel: exported from one catalog, and taken over by another that froze the same states.

A row holds the matrix of one state with the hash of the exact tokens it was computed from. Features of another layout,
language model, rule or renderer are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from sqlalchemy import Connection, and_, select

from drsr.features.layout import Column
from drsr.features.light import LIGHT_VIEW
from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import Kind
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.tables import SPLITS, DecisionState, Trajectory
from drsr.offline.featurize.files import read_files
from drsr.offline.featurize.records import FeatureExclusion, FeaturizedState, prepare_features, record_features
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, ViewIdentity, get_view, register_view
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import About, Exported, Imported, Row, export_rows, import_rows

FORMAT = "drsr features/1"

_SCHEMA = pyarrow.schema(
    [
        ("state_key", pyarrow.string()),
        ("outcome", pyarrow.string()),
        ("reason", pyarrow.string()),
        ("detail", pyarrow.string()),
        ("prefix_hash", pyarrow.string()),
        ("request_tokens", pyarrow.int32()),
        ("protocol_breaking", pyarrow.int32()),
        ("values", pyarrow.list_(pyarrow.float32())),
    ]
)
"""`values`: the matrix, candidate by candidate, in the order of the view's columns."""


FURTHER = (Kind.WINDOW.value, Kind.SEMANTIC.value, LIGHT_VIEW)
"""Views that travel with the full one, each in a folder of its name below the full one's."""
_SPLITS: dict[str, tuple[Split, ...]] = {Kind.SEMANTIC.value: ("validation", "test")}
"""Splits to export of a view whose vectors take more room than all other features together: those that analyses
read."""


def export_features(
    catalog: Catalog, artifacts: ArtifactStore, folder: Path, view: str = DEFAULT_VIEW, *, replace: bool = False
) -> Exported:
    """Add the features of current trajectories in this view to a folder."""
    with catalog.reading() as connection:
        found = get_view(connection, view)
        rows = list(_recorded(connection, found))
    about = about_features(found.identity, found.columns)
    return export_rows(
        folder, about, _SCHEMA, rows, replace=replace, complete=lambda new: _with_values(artifacts, found, new)
    )


def import_features(
    catalog: Catalog,
    artifacts: ArtifactStore,
    folder: Path,
    identity: ViewIdentity,
    columns: Sequence[Column],
    view: str = DEFAULT_VIEW,
) -> Imported:
    """Take over what another catalog computed; `identity` and `columns` are what this one would. Again: no change."""

    def take(rows: list[Row]) -> tuple[int, int]:
        with catalog.writing() as connection:
            registered = register_view(connection, view, identity, columns)
        with catalog.reading() as connection:
            known = _known(connection, registered, [row["state_key"] for row in rows])
        by_split: defaultdict[Split, list[FeaturizedState]] = defaultdict(list)
        for row in rows:
            place = known.get(row["state_key"])
            if place is not None and not place.done:
                by_split[place.split].append(_featurized(place.id, row, identity.layout_hash, len(columns)))
        # The files first, then the rows that name them.
        prepared = [prepare_features(artifacts, registered, split, states) for split, states in by_split.items()]
        with catalog.writing() as connection:
            for found in prepared:
                record_features(connection, registered, found, method="import")
        return len(known), sum(map(len, by_split.values()))

    return import_rows(folder, about_features(identity, columns), take)


def about_features(identity: ViewIdentity, columns: Sequence[Column]) -> About:
    """Return what exported features depend on. The backbone's name is a name only: its identity counts."""
    facts = identity._asdict()
    del facts["backbone"]
    return {"format": FORMAT, "columns": len(columns), **facts}


class _Place(NamedTuple):
    id: int
    split: Split
    done: bool


def _known(connection: Connection, view: RegisteredView, keys: Sequence[str]) -> dict[str, _Place]:
    """Return the frozen states among these, and whether they have their features already."""
    columns = [DecisionState.state_key, DecisionState.id, Trajectory.split, StateFeatures.state_id]
    query = (
        select(*columns)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .outerjoin(StateFeatures, and_(StateFeatures.state_id == DecisionState.id, StateFeatures.view_id == view.id))
        .where(DecisionState.state_key.in_(keys))
    )
    return {key: _Place(number, split, done is not None) for key, number, split, done in connection.execute(query)}


def _recorded(connection: Connection, view: RegisteredView) -> Iterator[dict[str, Any]]:
    """Yield one per state of a current trajectory in this view, with the key of its file."""
    fields = [column.name for column in _SCHEMA if column.name not in ("state_key", "values")]
    query = (
        select(DecisionState.state_key, FeatureFile.blob, *(getattr(StateFeatures, name) for name in fields))
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .outerjoin(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .where(StateFeatures.view_id == view.id, Trajectory.is_current())
        .where(Trajectory.split.in_(_SPLITS.get(view.name, SPLITS)))
    )
    for row in connection.execute(query).mappings():
        yield dict(row)


def _with_values(
    artifacts: ArtifactStore, view: RegisteredView, rows: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows with their matrices; every file is read once."""
    by_file: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_file[row.pop("blob")].append(row)
    files = read_files(artifacts, view, [blob for blob in by_file if blob is not None])
    for blob, group in by_file.items():
        if blob is None:
            yield from ({**row, "values": []} for row in group)
            continue
        stored = next(files)
        places = defaultdict(list)
        for number, key in enumerate(stored.state_keys):
            places[key].append(number)
        yield from ({**row, "values": stored.matrix[places[row["state_key"]]].reshape(-1)} for row in group)


def _featurized(state_id: int, row: dict[str, Any], layout_hash: str, columns: int) -> FeaturizedState:
    result: CandidateFeatures | FeatureExclusion
    if row["outcome"] == "excluded":
        result = FeatureExclusion(row["reason"], row["detail"])
    else:
        matrix = np.asarray(row["values"], dtype=np.float32).reshape(-1, columns)
        result = CandidateFeatures(matrix, layout_hash, row["prefix_hash"])
    numbers = (row["state_key"], row["prefix_hash"], row["request_tokens"], row["protocol_breaking"])
    return FeaturizedState(state_id, *numbers, result)
