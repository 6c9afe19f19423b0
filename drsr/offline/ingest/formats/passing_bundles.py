"""Runs that are spread over several files of a tar archive, which is read once and in its own order.

An archive is in one folder at a time and in those around it. Of each of them the small files are held until it is left,
within a bound; then they are all there and can be put in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from drsr.offline.ingest.archives import HELD
from drsr.offline.ingest.formats.bundles import bundle, folder_of, gather, is_event_file
from drsr.offline.store.source_files import Limits, Refusal, SourceFile, Unreadable

_HELD_TOGETHER = 64 << 20
_SCATTERED = Refusal(
    "incomplete", "events of one run that lie apart in the archive; pack their folder as a whole, as tar does by itself"
)
_LARGE_EVENT = Refusal("too_large", f"one of its events has more than {HELD} bytes; unpack the archive")


def gather_passing(files: Iterable[SourceFile], limits: Limits) -> Iterator[SourceFile]:
    """Do as `gather` for the files of an archive that is read once, which come in its order.

    The small files of a folder are held until the archive leaves the folder, and then read in the order of their names.
    Raises what `files` raises, after everything that is held was handed out.
    """
    folders = _OpenFolders(limits)
    problem = None
    try:
        for file in files:
            yield from folders.take(file)
    except Unreadable as error:
        problem = error
    yield from folders.leave_all(problem)
    if problem is not None:
        raise problem


@dataclass(slots=True)
class _Folder:
    """A folder that an archive is in, or in a folder of."""

    path: str
    files: list[SourceFile] = field(default_factory=list)
    held: int = 0
    is_passed: bool = False
    """True for one of other files than events, with more than is held: they are handed on as they come."""
    flaw: Refusal | None = None
    """Why it is not read if it holds events."""

    def in_order(self) -> list[SourceFile]:
        return sorted(self.files, key=lambda file: file.relative)

    def opens_with_event(self) -> bool:
        return bool(self.files) and is_event_file(self.in_order()[0])


class _OpenFolders:
    """The folders that an archive is in now, each in the one before it, with their files as far as they are held."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: list[_Folder] = []
        self._held = 0
        self._left: set[bytes] = set()

    def take(self, file: SourceFile) -> Iterator[SourceFile]:
        path = folder_of(file.relative)
        while self._open and not path.startswith(self._open[-1].path):
            yield from self._leave(self._open.pop())
        if not self._open or self._open[-1].path != path:
            self._open.append(_Folder(path, flaw=_SCATTERED if _digest(path) in self._left else None))
        folder = self._open[-1]
        size = 0 if file.refused else file.size or 0
        if folder.is_passed or size > HELD:
            folder.flaw = folder.flaw or _LARGE_EVENT
            yield file
            return
        folder.files.append(file)
        folder.held += size
        self._held += size
        if self._held > _HELD_TOGETHER:
            yield from self._make_room()

    def leave_all(self, problem: Unreadable | None) -> Iterator[SourceFile]:
        """Leave every folder. `problem`: the archive could not be read further, so there may be more in them."""
        while self._open:
            folder = self._open.pop()
            if problem is not None:
                folder.flaw = folder.flaw or Refusal(problem.reason, f"the archive breaks off in it: {problem.detail}")
            yield from self._leave(folder)

    def _make_room(self) -> Iterator[SourceFile]:
        for folder in self._open:
            if not folder.is_passed and not folder.opens_with_event():
                folder.is_passed = True
                yield from self._taken(folder)
        if self._held > self._limits.document:
            for folder in self._open:
                folder.flaw = folder.flaw or _too_large(self._limits)
                yield from self._leave(folder)

    def _leave(self, folder: _Folder) -> Iterator[SourceFile]:
        self._left.add(_digest(folder.path))
        if not folder.opens_with_event() or folder.flaw is None:
            yield from gather(self._taken(folder))
            return
        files = self._taken(folder)
        yield replace(bundle(files), members=(), refused=folder.flaw)

    def _taken(self, folder: _Folder) -> list[SourceFile]:
        files, folder.files = folder.in_order(), []
        self._held -= folder.held
        folder.held = 0
        return files


def _too_large(limits: Limits) -> Refusal:
    return Refusal("too_large", f"one session of more than {limits.document} bytes; it must fit in memory")


def _digest(path: str) -> bytes:
    return hashlib.blake2b(path.encode(), digest_size=16).digest()  # paths may be long, and there may be many
