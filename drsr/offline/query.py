"""Questions in SQL about what was exported, answered by DuckDB in memory: read-only, and nothing but these tables.

    runs            a row per exported run
    states          a row per decision state, with its candidates
    measurements    a row per measured state: labelled or excluded, and why
    labels          a row per measured deletion set: mask, cardinality, direct_saving, harm, unsafe
    features        a row per candidate: state_key, candidate, and a column per feature

A table is read only if its name is in the question, or if none is (SHOW TABLES, a misspelt name), its bytes checked
against the names of the files. DuckDB then loses all access to files and extensions, and its settings are locked,
before it sees the question. A run that was superseded or withdrawn after an export is still in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow
from sqlalchemy import select

from drsr.errors import InputError, MissingExtra
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureView
from drsr.offline.store.exports import About, place_of, read_parts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LABELS = """
CREATE TABLE labels AS
SELECT state_key, mask, bit_count(mask) AS cardinality, direct_saving, deleted_nll, deleted_nll - intact_nll AS harm,
    deleted_nll - intact_nll > ? AS unsafe
FROM (SELECT state_key, intact_nll, unnest(masks) AS mask, unnest(direct_savings) AS direct_saving,
    unnest(deleted_nlls) AS deleted_nll FROM exported WHERE outcome = 'labelled')
"""
_LOCKED = ("SET temp_directory = ''", "SET enable_external_access = false", "SET lock_configuration = true")
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}


class Answer(NamedTuple):
    columns: list[str]
    rows: list[tuple[Any, ...]]


def answer(question: str, exports: Path, catalog: Callable[[], Catalog]) -> Answer:
    """Answer one SELECT over the exports of a folder; the names of features come from the catalog.

    InputError says what is wrong with the question, or which table has no export.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingExtra("duckdb", "query", needed_for="drsr query") from None
    hint = f"the tables are {', '.join(TABLES)}"
    with duckdb.connect(":memory:", config=dict(_CONFIG)) as connection:
        try:
            statements = connection.extract_statements(question)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise InputError("the question must be one SELECT", hint=hint)
            words = {word.lower() for word in re.findall(r"\w+", question)}
            named = [name for name in TABLES if name in words]
            for name in named or TABLES:
                stage, load = TABLES[name]
                if any(place_of(exports, stage).glob("*.parquet")):
                    with suppress(*() if named else (InputError,)):  # nobody asked for this one
                        load(connection, exports, catalog)
                else:
                    hint += f"; {exports} has no {name}: drsr export {exports} --stage {stage}"
            for setting in _LOCKED:
                connection.execute(setting)
            result = connection.execute(question)
            return Answer([column[0] for column in result.description or ()], result.fetchall())
        except duckdb.Error as error:
            raise InputError(str(error), where="the question", hint=hint) from None


def _runs(connection: DuckDBPyConnection, exports: Path, catalog: Callable[[], Catalog]) -> None:
    _load(connection, "CREATE TABLE runs AS SELECT * FROM exported", _exported(exports, "ingest")[1])


def _states(connection: DuckDBPyConnection, exports: Path, catalog: Callable[[], Catalog]) -> None:
    _load(connection, "CREATE TABLE states AS SELECT * FROM exported", _exported(exports, "freeze")[1])


def _measurements(connection: DuckDBPyConnection, exports: Path, catalog: Callable[[], Catalog]) -> None:
    table = _exported(exports, "label")[1]
    facts = [name for name in table.column_names if not pyarrow.types.is_list(table.schema.field(name).type)]
    _load(connection, "CREATE TABLE measurements AS SELECT * FROM exported", table.select(facts))


def _labels(connection: DuckDBPyConnection, exports: Path, catalog: Callable[[], Catalog]) -> None:
    about, table = _exported(exports, "label")
    _load(connection, _LABELS, table, [about["harm_tolerance"]])


def _features(connection: DuckDBPyConnection, exports: Path, catalog: Callable[[], Catalog]) -> None:
    about, table = _exported(exports, "featurize")
    with catalog() as opened:
        names = column_names(opened, about["layout_hash"], place_of(exports, "featurize"))
    _load(connection, "CREATE TABLE features AS SELECT * FROM exported", by_candidate(table, names))


TABLES: dict[str, tuple[str, Callable[[DuckDBPyConnection, Path, Callable[[], Catalog]], None]]] = {
    "runs": ("ingest", _runs),
    "states": ("freeze", _states),
    "measurements": ("label", _measurements),
    "labels": ("label", _labels),
    "features": ("featurize", _features),
}
"""By name: the stage whose export it is made from, and how it is loaded."""


def column_names(catalog: Catalog, layout_hash: str, folder: Path) -> list[str]:
    """Return the names of a layout's columns, from any feature view that has it."""
    with catalog.reading() as connection:
        query = select(FeatureView.columns).where(FeatureView.layout_hash == layout_hash).limit(1)
        columns = connection.execute(query).scalar()
    if columns is None:
        raise InputError(
            "this catalog has no feature view of that layout, which names the columns",
            where=str(folder),
            hint="drsr import FOLDER takes the features over",
        )
    return [str(column[0]) for column in columns]


def by_candidate(table: pyarrow.Table, names: list[str]) -> pyarrow.Table:
    """Return exported features with a row per candidate and a column per feature; states without any are left out."""
    keys: list[str] = []
    places: list[int] = []
    matrices = []
    for key, values in zip(table.column("state_key").to_pylist(), table.column("values"), strict=True):
        matrix = values.values.to_numpy(zero_copy_only=False).reshape(-1, len(names))
        keys += [key] * len(matrix)
        places += range(len(matrix))
        matrices.append(matrix)
    whole = np.concatenate(matrices) if matrices else np.zeros((0, len(names)), dtype=np.float32)
    columns = [pyarrow.array(np.ascontiguousarray(whole[:, place]), pyarrow.float32()) for place in range(len(names))]
    first = [pyarrow.array(keys, pyarrow.string()), pyarrow.array(places, pyarrow.int32())]
    return pyarrow.Table.from_arrays([*first, *columns], ["state_key", "candidate", *names])


def _exported(exports: Path, stage: str) -> tuple[About, pyarrow.Table]:
    """Return what the parts of a stage's export are about, and all their rows."""
    parts = list(read_parts(place_of(exports, stage)))
    return parts[0].about, pyarrow.concat_tables([part.table for part in parts])


def _load(connection: DuckDBPyConnection, create: str, table: pyarrow.Table, values: list[Any] | None = None) -> None:
    """Copy rows into DuckDB's own memory: a view over them would need access to what lies outside."""
    connection.register("exported", table)
    connection.execute(create, values or [])
    connection.unregister("exported")
