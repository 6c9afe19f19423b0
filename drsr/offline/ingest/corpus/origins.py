"""Origins of a corpus's files, including a local mirror, and the check of every byte that arrives."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from pathlib import Path
from typing import Any, Literal, Protocol

from drsr.errors import InputError, NothingThere
from drsr.offline.ingest.corpus.table import CorpusFile

Reason = Literal["missing", "forbidden", "altered", "unreachable"]

CHUNK = 1 << 20
"""Bytes that are taken at once."""


class Unavailable(Exception):
    """This file cannot be had as the table describes it; the others may. It never leaves `corpus_fetch`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason: Reason = reason
        self.detail = detail


class CutShort(Unavailable):
    """Fewer bytes than expected: another file, or a connection that was cut."""


class Stopped(Exception):
    """Another file failed for a reason that concerns all of them. It never leaves `corpus_fetch`."""


class Origin(Protocol):
    """Anything that files of a corpus can be taken from."""

    def bring(self, file: CorpusFile, path: Path, stop: threading.Event) -> None:
        """Write the file to `path`, with exactly the bytes its row asks for. Raises Unavailable, Stopped, DrsrError."""


class Arriving(io.RawIOBase):
    """A file being written, hashed and counted as it arrives, refused as soon as it is too long."""

    def __init__(self, file: CorpusFile, path: Path, stop: threading.Event) -> None:
        self._expected = file
        self._stop = stop
        self._hash = hashlib.sha256()
        self._count = 0
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise cannot_write(path, error) from None

    @property
    def stopped(self) -> bool:
        """Return whether nobody wants the file any more."""
        return self._stop.is_set()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.stopped:
            raise Stopped
        self._count += len(data)
        if self._count > self._expected.bytes:
            raise Unavailable("altered", f"it has more than the {self._expected.bytes:,} bytes of the table")
        self._hash.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            raise cannot_write(Path(self._file.name), error) from None

    def finish(self) -> None:
        """Compare what arrived with the table, and put it safely on disk. Raises Unavailable."""
        if self._count < self._expected.bytes:
            raise CutShort("altered", f"it has {self._count:,} of the {self._expected.bytes:,} bytes of the table")
        found = self._hash.hexdigest()
        if found != self._expected.sha256:
            raise Unavailable("altered", f"its SHA-256 is {found} instead of {self._expected.sha256}")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(Path(self._file.name), error) from None

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class Mirror:
    """A folder that has the files at the same paths as a fetched corpus."""

    def __init__(self, folder: Path) -> None:
        """Raises NothingThere where it is not a folder."""
        if not folder.is_dir():
            raise NothingThere("the mirror is not a folder", where=str(folder))
        self.folder = folder

    def bring(self, file: CorpusFile, path: Path, stop: threading.Event) -> None:
        place = self.folder / file.local
        if not place.is_file():  # a pipe would be waited for without end
            raise Unavailable("missing", f"the mirror has no file {place}")
        with Arriving(file, path, stop) as arriving:
            try:
                with place.open("rb") as stream:
                    while chunk := stream.read(CHUNK):
                        arriving.write(chunk)
            except OSError as error:
                raise Unavailable("forbidden", f"{place} cannot be read: {error.strerror}") from None
            arriving.finish()


def cannot_write(path: Path, error: OSError) -> InputError:
    """Say that the disk does not take a file, which concerns all others too."""
    return InputError(f"cannot be written: {error.strerror}", where=str(path), hint="fetch goes on where it stopped")
