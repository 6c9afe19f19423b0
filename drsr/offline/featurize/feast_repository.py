"""A feature view as a Feast repository: `drsr featurize --feast DIR`.

    feature_store.yaml       written once; the stores are yours to choose: by default all of it is files in `data`
    drsr_VIEW.py             entities, file source and feature view, generated: the view's columns in their order
    data/VIEW.parquet        a row per candidate: state_key, candidate, event_timestamp, created, a column per feature

A row's entity is a state and one of its candidates; its event is the moment when the features were computed. What takes
part no longer is gone from the next export; what an online store was given stays there until it is written over.
"""

from __future__ import annotations

import datetime
import json
import keyword
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from sqlalchemy import Connection, select

from drsr.errors import FeatureViewError
from drsr.files import UNFINISHED, write_atomically, write_if_changed
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.files import FeatureRows, read_file
from drsr.offline.featurize.views import RegisteredView, get_view
from drsr.offline.store.artifacts import ArtifactStore

_STORE = """\
project: drsr
provider: local
registry: data/registry.db
online_store:
  type: sqlite
  path: data/online_store.db
offline_store:
  type: file
entity_key_serialization_version: 3
"""
_DEFINITIONS = '''\
"""The feature view {view} of drsr, written by `drsr featurize --feast`: changes are lost with the next one."""

from feast import Entity, FeatureView, Field, FileSource, ValueType
from feast.types import Float32

state = Entity(name="state", join_keys=["state_key"], value_type=ValueType.STRING)
candidate = Entity(name="candidate", join_keys=["candidate"], value_type=ValueType.INT64)
source_of_{view} = FileSource(
    name="{view}_file",
    path="data/{view}.parquet",
    timestamp_field="event_timestamp",
    created_timestamp_column="created",
)
{view} = FeatureView(
    name="{view}",
    entities=[state, candidate],
    ttl=None,
    schema=[Field(name=name, dtype=Float32) for name in {columns}],
    source=source_of_{view},
    tags={tags},
)
'''
_KEYS = [
    ("state_key", pyarrow.string()),
    ("candidate", pyarrow.int64()),
    ("event_timestamp", pyarrow.timestamp("us", tz="UTC")),
    ("created", pyarrow.timestamp("us", tz="UTC")),
]


class Written(NamedTuple):
    """The part of a view that a repository holds."""

    view: str
    states: int
    rows: int
    """Candidates."""
    columns: int


def write_feast(catalog: Catalog, artifacts: ArtifactStore, folder: Path, name: str) -> Written:
    """Write a view's definitions and the features of all current states that have some."""
    with catalog.reading() as connection:
        view = get_view(connection, name)
        computed = _computed(connection, view)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise FeatureViewError(f"{name!r} cannot be the name of a feature view in Python", hint="give it a plain name")
    if not computed:
        raise FeatureViewError(f"feature view {view.shown} has no features yet", hint=f"drsr featurize --view {name}")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    rows = _write_rows(artifacts, view, computed, folder / "data" / f"{name}.parquet")
    tags = {"version": str(view.version), **dict(zip(view.identity._fields, map(str, view.identity), strict=True))}
    columns = json.dumps([column.name for column in view.columns], indent=8)
    definitions = _DEFINITIONS.format(view=name, columns=columns, tags=json.dumps(tags, indent=8))
    write_if_changed(folder / f"drsr_{name}.py", definitions.encode())
    if not (folder / "feature_store.yaml").exists():
        write_atomically(folder / "feature_store.yaml", _STORE.encode())
    return Written(name, len(computed), rows, len(view.columns))


def _computed(connection: Connection, view: RegisteredView) -> dict[str, tuple[str, datetime.datetime]]:
    """File and moment by state."""
    query = (
        select(DecisionState.state_key, FeatureFile.blob, StateFeatures.computed_at)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(FeatureFile, FeatureFile.id == StateFeatures.file_id)
        .where(StateFeatures.view_id == view.id, Trajectory.is_current())
    )
    return {key: (blob, at) for key, blob, at in connection.execute(query)}


def _write_rows(
    artifacts: ArtifactStore,
    view: RegisteredView,
    computed: dict[str, tuple[str, datetime.datetime]],
    path: Path,
) -> int:
    """Write one Parquet file, a stored file at a time, whole or not at all; returns its number of rows."""
    schema = pyarrow.schema([*_KEYS, *((column.name, pyarrow.float32()) for column in view.columns)])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}{UNFINISHED}")
    written = 0
    try:
        with pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
            for table in _tables(artifacts, view, computed, schema):
                writer.write_table(table)
                written += table.num_rows
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _tables(
    artifacts: ArtifactStore,
    view: RegisteredView,
    computed: dict[str, tuple[str, datetime.datetime]],
    schema: pyarrow.Schema,
) -> Iterator[pyarrow.Table]:
    by_file: defaultdict[str, set[str]] = defaultdict(set)
    for key, (blob, _) in computed.items():
        by_file[blob].add(key)
    for blob in sorted(by_file):
        stored = read_file(artifacts, view, blob)
        used = np.array([key in by_file[blob] for key in stored.state_keys], dtype=np.bool_)
        yield _table(stored, used, computed, schema)


def _table(
    stored: FeatureRows,
    used: np.ndarray[tuple[int], np.dtype[np.bool_]],
    computed: dict[str, tuple[str, datetime.datetime]],
    schema: pyarrow.Schema,
) -> pyarrow.Table:
    places = np.flatnonzero(used)
    keys = [stored.state_keys[place] for place in places]
    at = pyarrow.array([computed[key][1] for key in keys], schema.field("created").type)
    candidates = pyarrow.array(stored.candidates[places], pyarrow.int64())
    columns = [pyarrow.array(column) for column in np.ascontiguousarray(stored.matrix[places].T)]
    return pyarrow.Table.from_arrays(
        [pyarrow.array(keys, pyarrow.string()), candidates, at, at, *columns], schema=schema
    )
