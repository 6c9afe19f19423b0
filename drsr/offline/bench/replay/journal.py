"""Results on disk: JSON lines that are only ever appended, so that a stopped run can continue.

    {"format": "drsr replay/4", ...}     what all other lines depend on
    {...}                                one line per result

Results that depend on something else are refused, never mixed in. A killed run leaves the beginning of the file that it
would have written; running it again completes the same file, byte for byte. One run writes to it at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, Literal, NamedTuple, Self, TypeVar

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.bench.report.output_folder import make_folder

try:
    import fcntl
except ImportError:  # Windows: that only one run writes is then the user's care
    fcntl = None  # type: ignore[assignment]

Json = dict[str, Any]
Row = TypeVar("Row")


class Kind(NamedTuple, Generic[Row]):
    """Limits on what a file may hold."""

    format: str
    contents: str
    """Contents of its lines, in words for the user."""
    command: str
    """Command that makes such a file."""
    row: Callable[[Json], Row]
    """Reads one line; raises KeyError, TypeError or ValueError if it is not a valid line."""


class Found(NamedTuple, Generic[Row]):
    """The contents of a file."""

    about: Json
    rows: list[Row]


class Journal(Generic[Row]):
    """A file that one run writes to; `rows` is what it held before. A new one is made with its first lines."""

    def __init__(self, path: Path, kind: Kind[Row], about: Json) -> None:
        make_folder(path.parent)
        self.path = path
        self.about = {"format": kind.format, **about}
        self.rows: list[Row] = []
        self._file = _opened(path, "r+b") if path.exists() else None
        if self._file is not None:
            try:
                self.rows = self._take_over(self._file, kind)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, values: Sequence[Json]) -> None:
        """Keep more lines; they are on disk when this returns."""
        if self._file is None:
            self._file = _opened(self.path, "xb")
        lines = values if self._file.tell() else [self.about, *values]
        self._file.write(b"".join(json.dumps(value).encode() + b"\n" for value in lines))
        self._file.flush()
        os.fsync(self._file.fileno())

    def refuse_other(self, about: Json, path: Path, *, hint: str) -> None:
        """Raise InputError if the lines of a file depend on something else than the lines of this one."""
        for name in sorted(self.about.keys() | about.keys()):
            if about.get(name) != self.about.get(name):
                raise InputError(
                    f"was made with {name} {about.get(name)!r}, this run has {self.about.get(name)!r}",
                    where=str(path),
                    hint=hint,
                )

    def _take_over(self, file: BinaryIO, kind: Kind[Row]) -> list[Row]:
        data = file.read()
        if _begins_header(data, kind.format):  # stopped before anything else was there
            file.seek(0)
            file.truncate()
            return []
        found, complete = _parsed(data, kind, self.path)
        self.refuse_other(found.about, self.path, hint="name another file with --output, or remove this one")
        file.seek(complete)
        file.truncate()
        return found.rows


def read_journal(path: Path, kind: Kind[Row]) -> Found[Row]:
    """Return what a file holds, in the order in which it was written; a line without an end does not count."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if _begins_header(data, kind.format):
        raise InputError(f"there are no {kind.contents} here", where=str(path), hint=f"{kind.command} makes them")
    return _parsed(data, kind, path)[0]


def _opened(path: Path, mode: Literal["r+b", "xb"]) -> BinaryIO:
    """Open a file exclusively. The system releases it when the process has ended, however it ended."""
    try:
        file = path.open(mode)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", where=str(path), hint="name another file with --output"
        ) from None
    if fcntl is not None:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise _taken(path) from None
    return file


def _taken(path: Path) -> InputError:
    return InputError(
        "another run is writing to this file",
        where=str(path),
        hint="wait until it is done, or name another file with --output",
    )


def _parsed(data: bytes, kind: Kind[Row], path: Path) -> tuple[Found[Row], int]:
    """Return what the complete lines hold, and how many bytes these are."""
    complete = data.rfind(b"\n") + 1
    lines = data[:complete].splitlines()
    try:
        about: Json = json.loads(lines[0])
        if about["format"] != kind.format:
            raise ValueError(f"its format is {about['format']!r}, not {kind.format!r}")
        return Found(about, [kind.row(json.loads(line)) for line in lines[1:]]), complete
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ArtifactCorrupt(
            f"holds no {kind.contents}: {error}", where=str(path), hint="remove it and run again"
        ) from None


def _begins_header(data: bytes, form: str) -> bool:
    """Return whether these bytes are a header that was not written to its end."""
    start = json.dumps({"format": form}).encode()[:-1]
    return b"\n" not in data and (data.startswith(start) or start.startswith(data))
