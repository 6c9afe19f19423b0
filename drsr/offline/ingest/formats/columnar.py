"""Parquet and Arrow (Feather) files, as dataset hubs have them: every row becomes a record like a line of JSON.

A struct has all fields that any row has, so fields that are null in a row are left out of it. Rows are decoded in
batches of a few megabytes; only a file that lies in an archive, where nobody can jump about, is held whole.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

from drsr.offline.ingest.formats.byte_streams import taken
from drsr.offline.store.source_files import Limits, Unreadable

Layout = Literal["parquet", "arrow_file", "arrow_stream"]

_BATCH_BYTES = 8 << 20
_MOST_ROWS = 1_000
_MAGIC: tuple[tuple[bytes, Layout], ...] = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow_file"),
    (b"\xff\xff\xff\xff", "arrow_stream"),
)


def layout_of(head: bytes) -> Layout | None:
    """Return the layout of a file by its first bytes. Raise Unreadable for a layout that is no longer in use."""
    if head.startswith(b"FEA1"):
        raise Unreadable("binary", "a Feather file of version 1; write it again with version 2, or as Parquet")
    return next((layout for magic, layout in _MAGIC if head.startswith(magic)), None)


def rows(stream: BinaryIO, layout: Layout, limits: Limits) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every row as JSON has it, with about how many bytes it takes. Raises Unreadable where the file is
    damaged."""
    source = _Watched(_seekable(stream, limits) if layout != "arrow_stream" else stream)
    with _damage(source):
        for batch in _parquet(source, limits) if layout == "parquet" else _arrow(source, layout, limits):
            batch.validate(full=True)  # Arrow trusts the offsets of a file: damaged ones lead out of its memory
            size = batch.nbytes // max(batch.num_rows, 1)
            if size > limits.document:
                raise Unreadable("too_large", f"rows of more than {limits.document} bytes")
            for number in range(batch.num_rows):
                (row,) = batch.slice(number, 1).to_pylist()
                yield _plain(row), size


def _parquet(source: _Watched, limits: Limits) -> Iterator[Any]:
    from pyarrow import parquet

    file = parquet.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False)
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    if size > limits.expanded:
        raise Unreadable("zip_bomb", f"unpacks to {size} bytes; at most {limits.expanded}")
    each = max(size // max(file.metadata.num_rows, 1), 1)
    yield from file.iter_batches(batch_size=min(max(_BATCH_BYTES // each, 1), _MOST_ROWS), use_threads=False)


def _arrow(source: _Watched, layout: Layout, limits: Limits) -> Iterator[Any]:
    from pyarrow import ipc

    if layout == "arrow_stream":
        yield from ipc.open_stream(source)
        return
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    file = ipc.open_file(source)
    if size // max(file.num_record_batches, 1) > limits.document:
        detail = f"batches of more than {limits.document} bytes; write the file again in batches of 1,000 rows"
        raise Unreadable("too_large", detail)
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _plain(value: Any) -> Any:
    """A value as JSON has it: no null fields, times as text, bytes left out."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None and type(inner) is not bytes}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map
            return {str(key): _plain(inner) for key, inner in value if inner is not None}
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _seekable(stream: BinaryIO, limits: Limits) -> BinaryIO:
    if stream.seekable():
        return stream
    held = taken(stream, limits.document + 1)
    if len(held) > limits.document:
        detail = f"a columnar file of more than {limits.document} bytes inside an archive; unpack it first"
        raise Unreadable("too_large", detail)
    return io.BytesIO(held)


class _Watched(io.RawIOBase):
    """A stream that remembers why it failed: pyarrow says OSError of damaged content and of broken storage alike."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.failure: BaseException | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def read(self, size: int = -1) -> bytes:
        try:
            return self._stream.read(size)
        except BaseException as failure:
            self.failure = failure
            raise

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


@contextmanager
def _damage(source: _Watched) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, EOFError, UnicodeDecodeError, MemoryError, OverflowError) as problem:
        if source.failure is not None:
            raise source.failure from None
        raise Unreadable(
            "corrupt_table", f"a damaged columnar file ({problem!s:.200}); copy or write it again"
        ) from None
