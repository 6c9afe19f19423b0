"""Drift of features: the population stability index of every column and source against the training set.

    PSI = sum over bins of (share in source - share in training set) * ln(share in source / share in training set)

Ten bins with equal shares of the training set, or one per value if a column has few. Below 0.1 is usually called
stable, above 0.25 a shift. A small source has an index above zero by chance alone, and the page says so. The test split
is left out: this does not need it. No label is read, and each read of a split is recorded.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

import drsr
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.reads import record_reads
from drsr.offline.catalog.scorer_tables import TrainingRun
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.files import read_file
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, find_view, get_view
from drsr.offline.freeze.records import is_current_state
from drsr.offline.store.kept import Kept
from drsr.offline.store.place import Place

BINS = 10
SHIFTED = 0.25
SAMPLE = 10_000
"""Training rows that the bins are chosen from: the first ones of every file, as many as its share."""
SHOWN = 20
"""Columns by source, those that drift most."""
READ = ("train", "validation")
QUESTION = "drift"


class SourceDrift(NamedTuple):
    """One source against the training set."""

    source: str
    rows: int
    """Candidates: values of a column."""
    by_chance: float
    """The index to be expected of as many rows of the training set itself."""
    median: float
    shifted: int
    """Columns above `SHIFTED`."""
    columns: list[tuple[str, float]]
    """Those with the largest index, largest first."""


class Drift(NamedTuple):
    view: str
    columns: int
    training_rows: int
    sources: list[SourceDrift]


class _Part(NamedTuple):
    """The states of one file that are looked at: the source of each, and whether it is in the training set."""

    split: str
    sources: dict[str, str]
    training: frozenset[str]


def read_drift(place: Place, kept: Kept | None) -> Drift | None:
    """Compare every source with the training set; return None if nothing is featurized, or nothing labelled to train
    on.

    With `kept`, files are read again only when the states to compare have changed.
    """
    with place.catalog.reading() as connection:
        view = _view(connection)
        parts = {} if view is None else _parts(connection, view)
    if view is None or not any(part.training for part in parts.values()):
        return None
    content = content_key(
        {blob: [sorted(part.sources.items()), sorted(part.training)] for blob, part in parts.items()}
        | {"view": view.identity.layout_hash}
    )
    known = {} if kept is None else kept.find(QUESTION, [content])
    if content in known:
        view_name, columns, rows, sources = json.loads(known[content])
        return Drift(view_name, columns, rows, [_source(*row) for row in sources])
    found = _compared(place, view, parts)
    if kept is not None:
        kept.keep(QUESTION, {content: json.dumps(found).encode()}, alone=True)
    return found


def stability_index(training: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the index of each column from counts by bin [bins, columns]. A bin empty on one side counts as half."""
    used = (training + other) > 0
    expected, seen = (np.where(used, np.maximum(counts, 0.5), 0.0) for counts in (training, other))
    expected, seen = expected / expected.sum(axis=0), seen / seen.sum(axis=0)
    ratio = np.divide(seen, expected, out=np.ones_like(seen), where=used)
    return np.asarray(((seen - expected) * np.log(ratio)).sum(axis=0), dtype=np.float64)


def edges(sample: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the upper edges of all bins but the last [bins - 1, columns]; what a column does not need is infinite."""
    found = np.full((BINS - 1, sample.shape[1]), np.inf, dtype=np.float32)
    quantiles = np.quantile(sample, np.arange(1, BINS) / BINS, axis=0, method="higher").astype(np.float32)
    for column in range(sample.shape[1]):
        values = np.unique(sample[:, column])
        cut = values[:-1] if len(values) <= BINS else _cut(values, quantiles[:, column])
        found[: len(cut), column] = cut
    return found


def _cut(values: NDArray[np.float32], quantiles: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return different edges; a value that is several quantiles at once gets a separate bin."""
    cut, times = np.unique(quantiles, return_counts=True)
    before = np.searchsorted(values, cut[times > 1]) - 1
    return np.unique(np.concatenate([cut, values[before[before >= 0]]]))


def counted(matrix: NDArray[np.float32], limits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Count the values of each column by bin [bins, columns]."""
    above = np.array([(matrix > limit).sum(axis=0) for limit in limits], dtype=np.float64)
    whole = np.full((1, matrix.shape[1]), float(len(matrix)))
    return np.asarray(np.vstack([whole, above]) - np.vstack([above, np.zeros_like(whole)]), dtype=np.float64)


def _source(
    source: str, rows: int, by_chance: float, median: float, shifted: int, columns: list[list[object]]
) -> SourceDrift:
    return SourceDrift(
        source, rows, by_chance, median, shifted, [(str(name), float(str(psi))) for name, psi in columns]
    )


def _compared(place: Place, view: RegisteredView, parts: Mapping[str, _Part]) -> Drift:
    limits = edges(_sample(place, view, parts))
    names = [column.name for column in view.columns]
    training = np.zeros((BINS, len(names)))
    sources: dict[str, NDArray[np.float64]] = {}
    for part, keys, matrix in _files(place, view, parts):
        training += counted(matrix[[key in part.training for key in keys]], limits)
        of = np.array([part.sources.get(key, "") for key in keys])
        for source in sorted({*part.sources.values()}):
            counts = counted(matrix[of == source], limits)
            sources[source] = sources.get(source, 0.0) + counts
    _note_reads(place, view, parts)
    rows = int(training[:, 0].sum())
    return Drift(view.shown, len(names), rows, [_described(n, c, training, names) for n, c in sorted(sources.items())])


def _described(
    source: str, counts: NDArray[np.float64], training: NDArray[np.float64], names: list[str]
) -> SourceDrift:
    index = stability_index(training, counts)
    rows = int(counts[:, 0].sum())
    order = np.argsort(-index, kind="stable")[:SHOWN]
    by_chance = (BINS - 1) * (1 / rows + 1 / int(training[:, 0].sum()))
    largest = [(names[number], float(index[number])) for number in order]
    return SourceDrift(source, rows, by_chance, float(np.median(index)), int((index > SHIFTED).sum()), largest)


def _sample(place: Place, view: RegisteredView, parts: Mapping[str, _Part]) -> NDArray[np.float32]:
    """Return a limited number of rows of the training set, so that memory does not grow with the catalog."""
    taken: list[NDArray[np.float32]] = []
    total = sum(len(part.training) for part in parts.values())
    for part, keys, matrix in _files(place, view, {blob: part for blob, part in parts.items() if part.training}):
        mine = matrix[[key in part.training for key in keys]]
        taken.append(mine[: max(1, SAMPLE * len(part.training) // total)])
    return np.concatenate(taken)


def _files(
    place: Place, view: RegisteredView, parts: Mapping[str, _Part]
) -> Iterator[tuple[_Part, list[str], NDArray[np.float32]]]:
    for blob, part in sorted(parts.items()):
        rows = read_file(place.artifacts, view, blob)
        yield part, list(rows.state_keys), rows.matrix


def _view(connection: Connection) -> RegisteredView | None:
    """Return the view of the newest scorer; before the first, the default view, or else any."""
    trained = (
        select(FeatureView.name)
        .join(TrainingRun, TrainingRun.view_id == FeatureView.id)
        .order_by(TrainingRun.trained_at.desc(), TrainingRun.id.desc())
        .limit(1)
    )
    name = connection.execute(trained).scalar()
    if name is not None:
        return get_view(connection, name)
    named = [DEFAULT_VIEW, *connection.execute(select(FeatureView.name).order_by(FeatureView.name)).scalars()]
    return next((found for name in named if (found := find_view(connection, name)) is not None), None)


def _parts(connection: Connection, view: RegisteredView) -> dict[str, _Part]:
    """Return the current states of the view by file; the training set are those of the split `train` with labels."""
    labelled = select(StateMeasurement.state_id).where(StateMeasurement.outcome == "labelled")
    query = (
        select(
            FeatureFile.blob,
            Trajectory.split,
            DecisionState.state_key,
            Source.name,
            DecisionState.id.in_(labelled),
        )
        .select_from(StateFeatures)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .join(DecisionState, DecisionState.id == StateFeatures.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateFeatures.view_id == view.id, Trajectory.split.in_(READ), is_current_state(view.identity.freezing))
    )
    found: dict[str, tuple[str, dict[str, str], set[str]]] = {}
    for blob, split, key, source, has_labels in connection.execute(query):
        _, sources, training = found.setdefault(blob, (split, {}, set()))
        sources[key] = source
        if has_labels and split == "train":
            training.add(key)
    return {blob: _Part(split, sources, frozenset(training)) for blob, (split, sources, training) in found.items()}


def _note_reads(place: Place, view: RegisteredView, parts: Mapping[str, _Part]) -> None:
    """Record the reads, as every read of a split's features is."""
    states = {split: sum(len(p.sources) for p in parts.values() if p.split == split) for split in READ}
    now = datetime.datetime.now(datetime.UTC)
    facts = {"view_id": view.id, "labeler_id": None, "purpose": "describe", "labels": 0, "excluded": 0}
    rows = [
        {**facts, "split": split, "states": count, "code_version": drsr.__version__, "read_at": now}
        for split, count in states.items()
        if count
    ]
    with place.catalog.writing() as connection:
        record_reads(connection, rows)
