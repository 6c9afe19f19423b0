"""Features in Parquet files: one row per candidate. A file holds states of one view and split.

    state_key     whose features these are, by the state's own identity and not by a row number
    candidate     0 to 3: the bit of a deletion set's mask
    prefix_hash   the exact tokens that they were computed from
    ...           the view's columns, 32-bit floats, in the layout's order
    values        replaces the columns in a small file: all of them in one list

Describing a thousand columns takes ten times the bytes of one state's numbers, and 13 ms to write and 9 ms to read.
A list takes 0.3 ms, and has no names: these are the view's. Small files are merged, into files with named columns.

The file itself names the view it belongs to. Its key in the artifact store is its hash; a file that is missing, cut
short, of another hash or of another view is a named error.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from drsr.errors import ArtifactCorrupt, FeatureError, NonFiniteFeature
from drsr.offline.featurize.views import RegisteredView, require_layout
from drsr.offline.store.artifacts import ArtifactStore

FORMAT = "drsr features/1"
KEYS = ("state_key", "candidate", "prefix_hash")
VALUES = "values"
_AHEAD = 4
"""Files that are fetched ahead: a full one has about 16 MB."""
SMALL = 32
"""States below which a file keeps its numbers in one list."""
MOST_NAMED = 2_048
"""Columns above which it always does: describing them takes more bytes than many states."""


class FeatureBlock(NamedTuple):
    """The features of one state."""

    state_key: str
    prefix_hash: str
    layout_hash: str
    matrix: NDArray[np.float32]
    """[candidates, columns]"""


class FeatureRows(NamedTuple):
    """The contents of a file."""

    state_keys: list[str]
    """Key of each row's state; rows of a state are adjacent, in the order of its candidates."""
    candidates: NDArray[np.int64]
    prefix_hashes: list[str]
    matrix: NDArray[np.float32]
    """[rows, columns]"""


def write_file(artifacts: ArtifactStore, view: RegisteredView, blocks: Sequence[FeatureBlock]) -> str:
    """Store the features of some states as one file; return its key. Nothing refers to it until the catalog does."""
    for block in blocks:
        _check_block(view, block)
    counts = [len(block.matrix) for block in blocks]
    matrix = np.concatenate([block.matrix for block in blocks])
    keys: list[Any] = [
        pyarrow.array(np.repeat([block.state_key for block in blocks], counts).tolist(), pyarrow.string()),
        pyarrow.array(np.concatenate([np.arange(count) for count in counts]), pyarrow.int8()),
        pyarrow.array(np.repeat([block.prefix_hash for block in blocks], counts).tolist(), pyarrow.string()),
    ]
    is_listed = len(blocks) < SMALL or len(view.columns) > MOST_NAMED
    names, values = _listed(matrix) if is_listed else _named(view, matrix)
    table = pyarrow.table(keys + values, names=[*KEYS, *names]).replace_schema_metadata(_described(view))
    stream = io.BytesIO()
    # The artifact store compresses; statistics of a thousand columns would be larger than the numbers of a small file.
    pyarrow.parquet.write_table(
        table, stream, compression="none", use_dictionary=["state_key", "prefix_hash"], write_statistics=False
    )
    return artifacts.put(stream.getvalue())


def read_file(artifacts: ArtifactStore, view: RegisteredView, blob: str) -> FeatureRows:
    """Return the rows of a file, checked; raise ArtifactCorrupt, LayoutMismatch or NonFiniteFeature if they cannot be
    used."""
    return next(read_files(artifacts, view, [blob]))


def read_files(artifacts: ArtifactStore, view: RegisteredView, blobs: Sequence[str]) -> Iterator[FeatureRows]:
    """Yield the rows of many files in order, checked like those of one. Of a remote store the next are on their way."""
    for blob, data in zip(blobs, artifacts.each(blobs, at_once=_AHEAD), strict=True):
        yield _checked(view, blob, data)


def _checked(view: RegisteredView, blob: str, data: bytes | ArtifactCorrupt) -> FeatureRows:
    where = f"file {blob} of feature view {view.shown}"
    if isinstance(data, ArtifactCorrupt):
        raise ArtifactCorrupt(data.what, where=where, hint=_REPAIR)
    try:
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise ArtifactCorrupt(f"is not a Parquet file: {error}", where=where, hint=_REPAIR) from None
    written = table.schema.metadata or {}
    require_layout(view, written.get(b"layout_hash", b"without a name").decode())
    if written != _described(view):
        raise ArtifactCorrupt("was written for another view", where=where, hint=_REPAIR)
    names = [column.name for column in view.columns]
    if columns_of(table, names) != [*KEYS, *names]:
        raise ArtifactCorrupt("has other columns than its view", where=where, hint=_REPAIR)
    matrix = matrix_of(table, names)
    rows = FeatureRows(
        table.column(0).to_pylist(), table.column(1).to_numpy().astype(np.int64), table.column(2).to_pylist(), matrix
    )
    _refuse_non_finite(view, rows.state_keys, matrix)
    return rows


def columns_of(table: pyarrow.Table, names: Sequence[str]) -> list[str]:
    """Return the columns of a file; if it has a list of as many values instead, these are `names`, the view's."""
    found: list[str] = table.column_names
    if found != [*KEYS, VALUES]:
        return found
    fits = table.schema.field(VALUES).type == pyarrow.list_(pyarrow.float32(), len(names))
    return [*KEYS, *names] if fits and not table.column(VALUES).null_count else found


def matrix_of(table: pyarrow.Table, names: Sequence[str]) -> NDArray[np.float32]:
    """Return a file as [rows, columns], in the order of the view's `names`; a column that the file lacks is NaN."""
    matrix = np.full((table.num_rows, len(names)), np.nan, dtype=np.float32)
    found = table.column_names
    if columns_of(table, names) != found:
        lists = table.column(VALUES).combine_chunks()
        matrix[:] = lists.flatten().to_numpy(zero_copy_only=False).reshape(matrix.shape)
        return matrix
    places = {name: number for number, name in enumerate(found)}
    for number, name in enumerate(names):
        if name in places:
            matrix[:, number] = table.column(places[name]).to_numpy()
    return matrix


def _named(view: RegisteredView, matrix: NDArray[np.float32]) -> tuple[list[str], list[Any]]:
    """Return a column per feature."""
    return [column.name for column in view.columns], [
        pyarrow.array(column) for column in np.ascontiguousarray(matrix.T)
    ]


def _listed(matrix: NDArray[np.float32]) -> tuple[list[str], list[Any]]:
    """Return one column with a list per candidate."""
    values = pyarrow.array(np.ascontiguousarray(matrix, dtype=np.float32).reshape(-1))
    return [VALUES], [pyarrow.FixedSizeListArray.from_arrays(values, matrix.shape[1])]


_REPAIR = (
    "restore the artifact folder from a copy; or remove the damaged file and run drsr featurize, which computes "
    "again what is missing"
)


def _described(view: RegisteredView) -> dict[bytes, bytes]:
    """Return what a file says about itself."""
    facts = {"format": FORMAT, "view": view.name, "version": str(view.version), **view.identity._asdict()}
    return {name.encode(): value.encode() for name, value in facts.items()}


def _check_block(view: RegisteredView, block: FeatureBlock) -> None:
    require_layout(view, block.layout_hash)
    if block.matrix.ndim != 2 or block.matrix.shape[1] != len(view.columns) or len(block.matrix) == 0:
        raise FeatureError(
            f"features of shape {block.matrix.shape}, the view has {len(view.columns)} columns", where=block.state_key
        )
    _refuse_non_finite(view, [block.state_key] * len(block.matrix), block.matrix)


def _refuse_non_finite(view: RegisteredView, state_keys: Sequence[str], matrix: NDArray[np.float32]) -> None:
    if np.isfinite(matrix).all():
        return
    row, column = np.argwhere(~np.isfinite(matrix))[0]
    what = f"{view.columns[column].name} is {matrix[row, column]}"
    raise NonFiniteFeature(what, where=f"state {state_keys[row]} in feature view {view.shown}")
