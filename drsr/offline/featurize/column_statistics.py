"""Statistics of a feature view's columns: missing, constant, range, drift between splits. No label is read.

One pass over the view's files, file by file: memory does not grow with the number of states. Sums are taken around the
first row seen, so that a column of large numbers with small differences does not drown in rounding.
"""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, func, select

import drsr
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.reads import record_reads
from drsr.offline.catalog.tables import SPLITS, DecisionState, Trajectory
from drsr.offline.featurize.files import read_files
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, get_view
from drsr.offline.freeze.records import is_current_state
from drsr.offline.store.artifacts import ArtifactStore
from drsr.tables import table

LARGE_DRIFT = 0.5
"""Number of standard deviations between a split's mean and that of `train` above which the table lists a column
first."""
SHOWN = 20
"""Number of columns in the table; JSON has all of them."""


class SplitStatistics(NamedTuple):
    """One split: states, and arrays with a number per column."""

    split: str
    states: int
    """Current states with features."""
    excluded: int
    """Current states whose features cannot be had."""
    waiting: int
    """Current states that still wait for theirs."""
    rows: int
    """Candidates of the states with features: values of a column."""
    missing: int
    """Candidates of the others: values that each column lacks."""
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """Standard deviation."""
    below: NDArray[np.int64]
    """Values below the smallest one of `train`."""
    above: NDArray[np.int64]
    """Values above the largest one of `train`."""

    @property
    def constant(self) -> NDArray[np.bool_]:
        return np.equal(self.minimum, self.maximum)


class ColumnStatistics(NamedTuple):
    """A view's columns by split; splits without any features are left out."""

    view: str
    version: int
    columns: tuple[str, ...]
    splits: tuple[SplitStatistics, ...]

    def drift(self, split: SplitStatistics) -> NDArray[np.float64]:
        """Return how far a split's mean is from that of `train`, in standard deviations of `train`.

        Infinite where `train` is constant and the split's mean is another; NaN without anything in `train`.
        """
        train = next((found for found in self.splits if found.split == "train"), None)
        if train is None:
            return np.full(len(self.columns), np.nan)
        distance = np.abs(split.mean - train.mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(distance == 0.0, 0.0, distance / np.where(train.constant, 0.0, train.deviation))

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "splits": [self._split_to_json(split) for split in self.splits],
        }

    def _split_to_json(self, split: SplitStatistics) -> dict[str, Any]:
        drift = self.drift(split)
        columns = {
            name: {
                "minimum": float(split.minimum[number]),
                "maximum": float(split.maximum[number]),
                "mean": float(split.mean[number]),
                "deviation": float(split.deviation[number]),
                "constant": bool(split.constant[number]),
                "missing": split.missing,
                "drift": float(drift[number]) if np.isfinite(drift[number]) else None,
                "below_train": int(split.below[number]),
                "above_train": int(split.above[number]),
            }
            for number, name in enumerate(self.columns)
        }
        counts = {field: getattr(split, field) for field in ("states", "excluded", "waiting", "rows", "missing")}
        return {"split": split.split, **counts, "columns": columns}


class _Sums:
    """The running sums over the rows of one split."""

    def __init__(self, columns: int) -> None:
        self.rows = 0
        self.origin = np.zeros(columns)
        self.total = np.zeros(columns)
        self.squares = np.zeros(columns)
        self.minimum = np.full(columns, np.inf)
        self.maximum = np.full(columns, -np.inf)
        self.below = np.zeros(columns, dtype=np.int64)
        self.above = np.zeros(columns, dtype=np.int64)

    def add(self, matrix: NDArray[np.float32], train: _Sums | None) -> None:
        values = matrix.astype(np.float64)
        if self.rows == 0:
            self.origin = values[0]
        self.rows += len(values)
        self.minimum = np.minimum(self.minimum, values.min(axis=0))
        self.maximum = np.maximum(self.maximum, values.max(axis=0))
        centred = values - self.origin
        self.total += centred.sum(axis=0)
        self.squares += (centred**2).sum(axis=0)
        if train is not None:
            self.below += (values < train.minimum).sum(axis=0)
            self.above += (values > train.maximum).sum(axis=0)


def column_statistics(catalog: Catalog, artifacts: ArtifactStore, view: str = DEFAULT_VIEW) -> ColumnStatistics:
    """Describe the columns of a view's latest version. The read of each split is recorded."""
    with catalog.reading() as connection:
        found = get_view(connection, view)
        counts = {split: _counts(connection, found, split) for split in SPLITS}
        wanted = {split: _wanted(connection, found, split) for split in SPLITS}
    splits = []
    train: _Sums | None = None
    for split in SPLITS:  # `train` comes first: the others are held against its range
        sums = _Sums(len(found.columns))
        blobs = sorted(wanted[split])
        for blob, rows in zip(blobs, read_files(artifacts, found, blobs), strict=True):
            used = np.array([key in wanted[split][blob] for key in rows.state_keys])
            sums.add(rows.matrix[used], train)
        if split == "train" and sums.rows:
            train = sums
        if sums.rows:
            splits.append(_described(split, counts[split], sums))
    with catalog.writing() as connection:
        record_reads(connection, [_read(found, split) for split in splits])
    return ColumnStatistics(found.name, found.version, tuple(column.name for column in found.columns), tuple(splits))


def statistics_text(statistics: ColumnStatistics) -> str:
    """Return the statistics for a terminal: counts per split, constant columns, and the columns that drift most."""
    lines = [f"feature view {statistics.view} version {statistics.version}: {len(statistics.columns):,} columns"]
    headers = ("split", "states", "excluded", "waiting", "rows", "missing", "constant", f"drift over {LARGE_DRIFT}")
    rows = []
    for split in statistics.splits:
        drifting = int((statistics.drift(split) > LARGE_DRIFT).sum())
        counts = (split.states, split.excluded, split.waiting, split.rows, split.missing, int(split.constant.sum()))
        rows.append((split.split, *counts, drifting))
    lines.append(table(headers, rows) if rows else "no features are stored yet: drsr featurize")
    for split in statistics.splits:
        if split.split == "train" and split.constant.any():
            names = [name for name, is_so in zip(statistics.columns, split.constant, strict=True) if is_so]
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            lines.append(f"constant in train: {', '.join(names[:SHOWN])}{more}")
    lines += _drifting(statistics)
    return "\n".join(lines)


def _drifting(statistics: ColumnStatistics) -> list[str]:
    """Return the columns whose mean differs most from that of `train`, as a table."""
    found = []
    for split in statistics.splits:
        if split.split == "train":
            continue
        drift = statistics.drift(split)
        for number in np.argsort(-np.nan_to_num(drift, nan=-1.0), kind="stable")[:SHOWN]:
            outside = int(split.below[number] + split.above[number])
            spread = f"{split.minimum[number]:.4g} .. {split.maximum[number]:.4g}"
            found.append((float(drift[number]), statistics.columns[number], split.split, spread, outside))
    found.sort(key=lambda row: -row[0])
    shown = [(name, split, f"{drift:.2f}", spread, outside) for drift, name, split, spread, outside in found[:SHOWN]]
    headers = ("column", "split", "drift from train", "range", "outside train's range")
    return ["", table(headers, shown)] if shown else []


def _current(view: RegisteredView, split: str) -> Any:
    return and_(Trajectory.split == split, is_current_state(view.identity.freezing))


def _counts(connection: Connection, view: RegisteredView, split: str) -> dict[str | None, tuple[int, int]]:
    """Return states and their candidates by outcome; None for those that wait."""
    mine = and_(StateFeatures.state_id == DecisionState.id, StateFeatures.view_id == view.id)
    query = (
        select(StateFeatures.outcome, func.count(), func.sum(DecisionState.candidates))
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .outerjoin(StateFeatures, mine)
        .where(_current(view, split))
        .group_by(StateFeatures.outcome)
    )
    return {outcome: (int(states), int(candidates)) for outcome, states, candidates in connection.execute(query)}


def _wanted(connection: Connection, view: RegisteredView, split: str) -> dict[str, set[str]]:
    """Return, by file, the keys of the current states in it."""
    query = (
        select(FeatureFile.blob, DecisionState.state_key)
        .select_from(StateFeatures)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .join(DecisionState, DecisionState.id == StateFeatures.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateFeatures.view_id == view.id, _current(view, split))
    )
    wanted: dict[str, set[str]] = {}
    for blob, key in connection.execute(query):
        wanted.setdefault(blob, set()).add(key)
    return wanted


def _described(split: str, counts: dict[str | None, tuple[int, int]], sums: _Sums) -> SplitStatistics:
    nothing = (0, 0)
    excluded, waiting = counts.get("excluded", nothing), counts.get(None, nothing)
    offset = sums.total / sums.rows
    variance = np.maximum(sums.squares / sums.rows - offset**2, 0.0)
    return SplitStatistics(
        split=split,
        states=counts["stored"][0],
        excluded=excluded[0],
        waiting=waiting[0],
        rows=sums.rows,
        missing=excluded[1] + waiting[1],
        minimum=sums.minimum,
        maximum=sums.maximum,
        mean=sums.origin + offset,
        deviation=np.sqrt(variance),
        below=sums.below,
        above=sums.above,
    )


def _read(view: RegisteredView, split: SplitStatistics) -> dict[str, Any]:
    return {
        "view_id": view.id,
        "labeler_id": None,
        "split": split.split,
        "purpose": "describe",
        "states": split.states,
        "labels": 0,
        "excluded": split.excluded,
        "code_version": drsr.__version__,
        "read_at": datetime.datetime.now(datetime.UTC),
    }
