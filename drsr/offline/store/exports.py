"""Exports: what a stage measured, as immutable Parquet parts in a folder, for DVC, for readers and for other catalogs.

    <folder>/<sha256, 32 digits>.parquet    some rows, one per state or run; named by the file's own bytes

An export adds one part with the rows that no part holds yet, so a nightly run writes what is new and nothing else. A
part is never changed. It states what its numbers depend on (`about`); parts that disagree cannot share a folder. What
is known of its numbers besides may differ from part to part (`beside`).
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from drsr.errors import ArtifactCorrupt, InputError
from drsr.files import write_atomically
from drsr.offline.stages import STAGES

KEY = "state_key"
_DIGITS = 32
_ABOUT, _BESIDE = b"drsr", b"drsr.beside"

Row = dict[str, Any]
About = dict[str, Any]
"""Everything that the numbers of a part depend on, as JSON values: its format, the language model, the renderer, the
rule, ..."""

Summary = dict[str, Any]
"""A few numbers of an export, for `dvc metrics show` and `dvc metrics diff`."""


class Exported(NamedTuple):
    """The result of an export."""

    part: str | None
    """Name of the part that was added; None if nothing was new."""
    states: int
    """Number of rows in that part: one per state, or per run if runs are exported."""
    there: int
    """Rows that other parts held already."""


class Part(NamedTuple):
    about: About
    table: pyarrow.Table


def export_rows(
    folder: Path,
    about: About,
    schema: pyarrow.Schema,
    rows: Iterable[Row],
    *,
    beside: Mapping[str, Any] | None = None,
    replace: bool = False,
    complete: Callable[[list[Row]], Iterable[Row]] = lambda rows: rows,
) -> Exported:
    """Add those rows to a folder that no part holds yet; the first column of the schema is their key.

    `complete` is given the new ones, for what takes long to look up. With `replace`, parts that were made otherwise are
    removed first: for a folder whose earlier content DVC remembers.
    """
    key = schema.names[0]
    if replace:
        for path in _paths(folder):
            if _about(_schema(path), path) != about:
                path.unlink()
    there = exported_keys(folder, about, key)
    new = list(complete([row for row in rows if row[key] not in there]))
    return add_part(folder, about, pyarrow.Table.from_pylist(new, schema), len(there), beside)


def add_part(
    folder: Path, about: About, table: pyarrow.Table, there: int, beside: Mapping[str, Any] | None = None
) -> Exported:
    """Write rows (sorted by their key here, so that their order says nothing) as one more part."""
    folder.mkdir(parents=True, exist_ok=True)
    if table.num_rows == 0:
        return Exported(None, 0, there)
    said = {_ABOUT: about} if beside is None else {_ABOUT: about, _BESIDE: beside}
    table = table.sort_by(table.column_names[0]).replace_schema_metadata(
        {name: json.dumps(value, sort_keys=True).encode() for name, value in said.items()}
    )
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream, compression="zstd", compression_level=9, write_statistics=False)
    data = stream.getvalue()
    name = f"{hashlib.sha256(data).hexdigest()[:_DIGITS]}.parquet"
    write_atomically(folder / name, data)
    return Exported(name, table.num_rows, there)


def part_without(path: Path, gone: Mapping[str, Collection[str]]) -> None:
    """Rewrite a part without the rows that have one of some values in a column, under its new name."""
    table = pyarrow.parquet.read_table(path, use_threads=False)
    for name in gone.keys() & set(table.column_names):
        values = pyarrow.array(sorted(gone[name]), pyarrow.string())
        table = table.filter(pyarrow.compute.invert(pyarrow.compute.is_in(table.column(name), values)))
    add_part(path.parent, _about(table.schema, path), table, 0, _beside(table.schema))
    path.unlink()


def exported_keys(folder: Path, about: About, key: str) -> set[str]:
    """Return what the folder's parts hold, by key. A part about something else is an error: nothing may be mixed."""
    keys: set[str] = set()
    for path in _paths(folder):
        require_same(about, _about(_schema(path), path), path)
        try:
            found = pyarrow.parquet.read_table(path, columns=[key], use_threads=False)
        except (pyarrow.ArrowException, OSError, KeyError) as error:
            raise ArtifactCorrupt(f"cannot be read: {error}", where=str(path), hint=_REPAIR) from None
        keys.update(found.column(key).to_pylist())
    return keys


def read_parts(folder: Path) -> Iterator[Part]:
    """Yield every part, its bytes checked against its name. Raise an error if it has no parts."""
    paths = _paths(folder)
    if not paths:
        raise InputError("there is no export here", where=str(folder), hint="drsr export FOLDER makes one")
    for path in paths:
        data = path.read_bytes()
        if not path.stem == hashlib.sha256(data).hexdigest()[:_DIGITS]:
            raise ArtifactCorrupt("its bytes are not those it is named by", where=str(path), hint=_REPAIR)
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data), use_threads=False)
        yield Part(_about(table.schema, path), table.replace_schema_metadata(None))


def said_beside(folder: Path) -> list[Mapping[str, Any]]:
    """Return what the parts of a folder say beside their numbers, of those that say something."""
    found = (_beside(_schema(path)) for path in _paths(folder))
    return [beside for beside in found if beside is not None]


def to_bytes(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def require_same(expected: About, found: About, path: Path) -> None:
    """Raise InputError naming the first difference, if there is one."""
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise InputError(
                f"was made with {name} {_short(found.get(name))}, this catalog has {_short(expected.get(name))}",
                where=str(path),
                hint="use a separate folder for another language model, rule, renderer or feature layout",
            )


_REPAIR = "fetch it again (dvc pull), or remove it and export again"


def _paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def _schema(path: Path) -> pyarrow.Schema:
    try:
        return pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ArtifactCorrupt(f"cannot be read: {error}", where=str(path), hint=_REPAIR) from None


def _about(schema: pyarrow.Schema, path: Path) -> About:
    try:
        about: About = json.loads((schema.metadata or {})[_ABOUT])
        return about
    except (KeyError, ValueError):
        raise ArtifactCorrupt("does not say what it holds", where=str(path), hint=_REPAIR) from None


def _beside(schema: pyarrow.Schema) -> Mapping[str, Any] | None:
    found = (schema.metadata or {}).get(_BESIDE)
    return None if found is None else dict(json.loads(found))


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


BATCH = 500
"""States per transaction of an import."""


class Imported(NamedTuple):
    """The result of an import."""

    taken: int
    """States whose numbers are new in this catalog."""
    there: int
    """Number of states that already had theirs; they are not changed."""
    unknown: int
    """States that this catalog has not frozen."""


def import_rows(folder: Path, about: About, take: Callable[[list[Row]], tuple[int, int]]) -> Imported:
    """Take over every part of a folder, some rows at a time. Raise InputError if a part was made differently.

    `take` records the rows whose states are known here, and returns their number and how many of them were new.
    """
    taken = there = unknown = 0
    for part in read_parts(folder):
        require_same(about, part.about, folder)
        for start in range(0, part.table.num_rows, BATCH):
            rows = _rows(part.table.slice(start, BATCH))
            known, new = take(rows)
            taken, there, unknown = taken + new, there + known - new, unknown + len(rows) - known
    return Imported(taken, there, unknown)


def _rows(table: pyarrow.Table) -> list[Row]:
    """Return the rows of a table. Lists of 32-bit numbers stay arrays, which takes a tenth of the time."""
    lists = [field for field in table.schema if pyarrow.types.is_list(field.type)]
    arrays = [field.name for field in lists if field.type.value_type == pyarrow.float32()]
    rows: list[Row] = table.drop_columns(arrays).to_pylist()
    for name in arrays:
        for row, values in zip(rows, table.column(name), strict=True):
            row[name] = values.values.to_numpy()
    return rows


CONTENTS = {stage.name: stage.folder for stage in STAGES}
"""The folder that each stage fills."""


def place_of(root: Path, stage: str) -> Path:
    """Return the path of a stage's export below a folder of exports."""
    return root / stage / CONTENTS[stage]
