"""The frames of `features`: one row per view, per column of a view, per Parquet file, per state in it, and per state
that has none.

The files are read one after another: memory holds one file, a hash per state, three numbers per
candidate, and a sample of at most 4,096 rows of the
labelled states of every split for the search for copies of labels. The time is that of reading the files, linear in
their bytes.
Of each view the latest version is judged; what older ones hold is stale and read by nobody. So is the view `semantic`
by any scorer: its columns are whole vectors for analyses, and are not judged one by one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pandas as pd
from sqlalchemy import exists, func, select

from drsr.expectations.frames.feature_layouts import layout_for
from drsr.expectations.frames.feature_reading import FeatureReading, frozen_candidates
from drsr.expectations.frames.label_columns import label_columns
from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.label_copies import split_agreement
from drsr.expectations.rules import Frames
from drsr.features.view_layouts import Kind, kind_of
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.label_tables import Label
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.views import RegisteredView, get_view

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore


def features_frames(catalog: Catalog, artifacts: ArtifactStore) -> Frames:
    with catalog.reading() as connection:
        latest = select(FeatureView.name, func.max(FeatureView.version)).group_by(FeatureView.name)
        views = [
            get_view(connection, name, version)
            for name, version in connection.execute(latest)
            if kind_of(name) is not Kind.SEMANTIC
        ]
    parts: dict[str, list[pd.DataFrame]] = {part: [] for part in _COLUMNS}
    for view in sorted(views):
        for part, frame in _view_frames(catalog, artifacts, view).items():
            parts[part].append(frame)
    empty = {part: pd.DataFrame(columns=list(names)) for part, names in _COLUMNS.items()}
    return {part: pd.concat(frames, ignore_index=True) if frames else empty[part] for part, frames in parts.items()}


_COLUMNS = {
    "views": ("view", "layout_hash", "layout_hash_of_columns"),
    "columns": (
        *("view", "column", "layout_column", "information", "non_finite", "agreement", "label"),
        *("compared_labels", "compared_rows", "labelled_rows"),
    ),
    "files": ("view", "file", "other_columns", "layout_hash", "layout_hash_of_view"),
    "states": (
        "view",
        "trajectory",
        "decision",
        "state_key",
        "candidates",
        "rows",
        "other_candidates",
        "prefix_hash",
        "stored_prefix_hash",
    ),
    "outcomes": ("view", "trajectory", "decision", "outcome", "reason"),
}
SAMPLE = 4_096
"""Rows that are compared with labels, at most: a third of them of each split, and a state has up to four."""


def _view_frames(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> dict[str, pd.DataFrame]:
    with catalog.reading() as connection:
        states, outcomes = _states(connection, view), _outcomes(connection, view)
        frozen = frozen_candidates(connection, view)
    names = [column.name for column in view.columns]
    reading = FeatureReading(names, frozen, of_views=view.is_light)
    files = []
    labelled = states[states["is_labelled"].astype("bool")]
    # Keys are hashes, so the first ones say nothing about the states.
    sampled = labelled.sort_values("state_key").groupby("split").head(SAMPLE // 12).set_index("state_key")["split"]
    for blob, keys in states.groupby("file")["state_key"]:
        about = reading.add(artifacts, str(blob), set(keys), sampled=set(sampled.index))
        files.append({"file": blob, "layout_hash_of_view": view.identity.layout_hash, **about})
    states["rows"] = states["state_key"].map(reading.rows).fillna(0)
    states["other_candidates"] = states["state_key"].map(reading.other_candidates).fillna(0)
    states["stored_prefix_hash"] = states["state_key"].map(reading.prefixes)
    labels = label_columns(catalog, reading.sampled)
    owners = [key for key, _ in reading.sampled]
    copies = split_agreement(reading.sample, labels, owners, [str(sampled[key]) for key in owners])
    layout = layout_for(names)
    columns = pd.DataFrame(
        itertools.zip_longest(
            names,
            layout.names if layout is not None else [],
            [column.information.value for column in view.columns],
            reading.non_finite,
            copies.correlation,
            copies.label,
        ),
        columns=list(_COLUMNS["columns"][1:7]),
    )
    columns = columns.assign(
        compared_labels=copies.labels, compared_rows=copies.rows, labelled_rows=int(labelled["candidates"].sum())
    )
    views = pd.DataFrame(
        [(view.identity.layout_hash, None if layout is None else layout.hash)], columns=list(_COLUMNS["views"][1:])
    )
    frames = {
        "views": views,
        "columns": columns,
        "files": pd.DataFrame(files, columns=list(_COLUMNS["files"][1:])),
        "states": states.drop(columns=["file", "split", "is_labelled"]),
        "outcomes": outcomes,
    }
    for frame in frames.values():
        frame.insert(0, "view", view.shown)
    return frames


def _states(connection: Connection, view: RegisteredView) -> pd.DataFrame:
    """Return the states of current trajectories whose features are stored."""
    query = (
        select(
            *TRAJECTORY,
            DecisionState.decision_index.label("decision"),
            DecisionState.state_key,
            DecisionState.candidates,
            StateFeatures.prefix_hash,
            FeatureFile.blob.label("file"),
            FeatureFile.split,
            exists().where(Label.state_id == DecisionState.id).label("is_labelled"),
        )
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateFeatures.view_id == view.id, StateFeatures.outcome == "stored", Trajectory.is_current())
        .order_by(DecisionState.id)
    )
    return with_trajectory(read_frame(connection, query))


def _outcomes(connection: Connection, view: RegisteredView) -> pd.DataFrame:
    """Return the outcome for every state of a current trajectory that the view has looked at."""
    query = (
        select(
            *TRAJECTORY,
            DecisionState.decision_index.label("decision"),
            StateFeatures.outcome,
            StateFeatures.reason,
        )
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateFeatures.view_id == view.id, Trajectory.is_current())
        .order_by(DecisionState.id)
    )
    return with_trajectory(read_frame(connection, query))
