"""The frames of `features`: one row per view, per column of a view, per Parquet file, and per state in it.

The files are read one after another: memory holds one file, 100 bytes per state, and a sample of at most 4,096 rows of
the training split for the search for copies of labels. The time is that of reading the files, linear in their bytes.
Of each view the latest version is judged; what older ones hold is stale and read by nobody.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
from sqlalchemy import and_, func, select

from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.feature_files import KEYS
from drsr.offline.feature_views import RegisteredView, get_view
from expectations.frames.feature_layouts import layout_for
from expectations.frames.label_columns import label_columns
from expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from expectations.label_copies import rank_agreement
from expectations.rules import Frames

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from drsr.offline.artifacts import ArtifactStore
    from drsr.offline.catalog.engine import Catalog

SAMPLE = 4_096
"""Rows that are compared with labels: enough that no honest column has their order by chance."""


def features_frames(catalog: Catalog, artifacts: ArtifactStore) -> Frames:
    with catalog.reading() as connection:
        latest = select(FeatureView.name, func.max(FeatureView.version)).group_by(FeatureView.name)
        views = [get_view(connection, name, version) for name, version in connection.execute(latest)]
    parts: dict[str, list[pd.DataFrame]] = {"views": [], "columns": [], "files": [], "states": []}
    for view in sorted(views):
        for part, frame in _view_frames(catalog, artifacts, view).items():
            parts[part].append(frame)
    empty = {part: pd.DataFrame(columns=list(names)) for part, names in _COLUMNS.items()}
    return {part: pd.concat(frames, ignore_index=True) if frames else empty[part] for part, frames in parts.items()}


_COLUMNS = {
    "views": ("view", "layout_hash", "layout_hash_of_columns"),
    "columns": ("view", "column", "layout_column", "information", "non_finite", "agreement", "label"),
    "files": ("view", "file", "other_columns", "layout_hash", "layout_hash_of_view"),
    "states": (
        "view",
        "trajectory",
        "decision",
        "state_key",
        "candidates",
        "rows",
        "prefix_hash",
        "stored_prefix_hash",
    ),
}


def _view_frames(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> dict[str, pd.DataFrame]:
    with catalog.reading() as connection:
        states = _states(connection, view)
        splits = dict(connection.execute(_files(view)).tuples().all())
    names = [column.name for column in view.columns]
    reading = _Reading(names, set(states["state_key"]))
    files = [
        {"file": blob, "layout_hash_of_view": view.identity.layout_hash, **reading.add(artifacts, blob, split)}
        for blob, split in sorted(splits.items())
    ]
    states["rows"] = states["state_key"].map(reading.rows).fillna(0)
    states["stored_prefix_hash"] = states["state_key"].map(reading.prefixes)
    labels = label_columns(catalog, reading.sampled)
    copies = rank_agreement(reading.sample, labels, [key for key, _ in reading.sampled])
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
        columns=list(_COLUMNS["columns"][1:]),
    )
    views = pd.DataFrame(
        [(view.identity.layout_hash, None if layout is None else layout.hash)], columns=list(_COLUMNS["views"][1:])
    )
    frames = {
        "views": views,
        "columns": columns,
        "files": pd.DataFrame(files, columns=list(_COLUMNS["files"][1:])),
        "states": states,
    }
    for frame in frames.values():
        frame.insert(0, "view", view.shown)
    return frames


def _states(connection: Connection, view: RegisteredView) -> pd.DataFrame:
    """Those of current trajectories whose features are stored."""
    query = (
        select(
            *TRAJECTORY,
            DecisionState.decision_index.label("decision"),
            DecisionState.state_key,
            DecisionState.candidates,
            StateFeatures.prefix_hash,
        )
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateFeatures.view_id == view.id, StateFeatures.outcome == "stored", Trajectory.superseded_by.is_(None))
        .order_by(DecisionState.id)
    )
    return with_trajectory(read_frame(connection, query))


def _files(view: RegisteredView) -> Any:
    """The files that some state refers to, with their split; others are waste, and waste leaks nothing."""
    used = and_(StateFeatures.file_id == FeatureFile.id, StateFeatures.view_id == view.id)
    return select(FeatureFile.blob, FeatureFile.split).join(StateFeatures, used).distinct()


class _Reading:
    """What is kept of the files while they pass."""

    def __init__(self, names: list[str], current: set[str]) -> None:
        self.rows: dict[str, int] = {}
        self.prefixes: dict[str, str] = {}
        self.non_finite = [0] * len(names)
        self.sample: NDArray[np.float32] = np.empty((0, len(names)), dtype=np.float32)
        self.sampled: list[tuple[str, int]] = []
        """State key and candidate of each row of the sample."""
        self._names = names
        self._current = current

    def add(self, artifacts: ArtifactStore, blob: str, split: str) -> dict[str, Any]:
        """Read a file; returns what the file says of itself. ArtifactCorrupt if it is missing or damaged."""
        data = artifacts.get(blob)
        try:
            table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False)
        except (pyarrow.ArrowException, OSError) as error:
            raise ArtifactCorrupt(f"is no Parquet file: {error}", where=f"feature file {blob}") from None
        found = table.column_names
        other = [name for name in found if name not in {*KEYS, *self._names}]
        about = {
            "other_columns": 0 if found == [*KEYS, *self._names] else max(1, len(other)),
            "layout_hash": (table.schema.metadata or {}).get(b"layout_hash", b"").decode(),
        }
        keys, candidates, prefixes = (table.column(name).to_pylist() if name in found else [] for name in KEYS)
        mine = np.array([key in self._current for key in keys], dtype=bool)
        for key, prefix, is_mine in zip(keys, prefixes, mine, strict=True):
            if is_mine:
                self.rows[key] = self.rows.get(key, 0) + 1
                if self.prefixes.setdefault(key, prefix) != prefix:
                    self.prefixes[key] = f"{self.prefixes[key]} and {prefix}"
        matrix = np.full((int(mine.sum()), len(self._names)), np.nan, dtype=np.float32)
        for number, name in enumerate(self._names):
            if name in found:
                matrix[:, number] = table.column(name).to_numpy()[mine]
                self.non_finite[number] += int((~np.isfinite(matrix[:, number])).sum())
        if split == "train" and len(self.sampled) < SAMPLE:
            # Files are named by their hash, so their order says nothing about their content.
            room = SAMPLE - len(self.sampled)
            self.sample = np.concatenate([self.sample, matrix[:room]])
            chosen = np.flatnonzero(mine)[:room]
            self.sampled += [(keys[row], candidates[row]) for row in chosen]
        return about
