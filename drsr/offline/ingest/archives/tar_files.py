"""Tar archives, read once from their start to their end, as a stream that may be compressed.

Small files are held in memory while they are needed. A larger one is read where it lies, before the archive goes on;
its beginning is kept in a temporary file, because a large document that turns out not to be one is read again.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, BinaryIO, cast

from drsr.errors import InputError
from drsr.offline.ingest.archives.member_names import REPEATED
from drsr.offline.ingest.archives.tar_headers import (
    BLOCK,
    EXTENSIONS,
    LARGEST_RECORDS,
    LONG_NAME,
    LONGEST_NAME,
    PAX,
    PAX_OF_ALL,
    Header,
    Said,
    long_name,
    more_holes,
    pax_records,
    read_header,
)
from drsr.offline.store.source_files import Limits, Refusal, SourceFile, Unreadable

HELD = 16 << 20
"""Bytes up to which a member is held in memory, where it can be opened at any time and any number of times."""
_READ_AHEAD = 32 << 20
"""Bytes behind the largest document that a reader may have taken before it knows that it is none."""
_PIECE = 1 << 20
_HEADERS_PER_MEMBER = 10
"""Headers of folders and of records about members that are passed over, for each member that may be read."""


def tar_members(stream: BinaryIO, file: SourceFile, limits: Limits) -> Iterator[SourceFile]:
    """Yield the members of a tar archive in its order. Raises Unreadable if nothing more can be read of the archive.

    A member of more than HELD bytes can be opened until the next one is asked for. One that must not be opened carries
    the reason in `refused`; hidden members and folders are left out.
    """
    archive = _Archive(stream, most_headers=limits.members * _HEADERS_PER_MEMBER)
    seen: set[bytes] = set()
    for number, (header, said) in enumerate(_members(archive), start=1):
        if number > limits.members:
            detail = f"more than {limits.members} members; what is behind them was not read: unpack it, or split it"
            raise Unreadable("zip_bomb", detail)
        refused = header.refusal(said) or _repeated(header.plain_name, seen)
        leads_out = refused is not None and refused.reason == "path_traversal"
        if header.is_hidden and not leads_out:
            continue
        name = header.name if leads_out else header.plain_name[:LONGEST_NAME]
        with _Member(archive, header.follows, limits) as member:
            yield SourceFile(
                location=f"{file.location}!{name}",
                relative=f"{file.relative}!{name}",
                source=file.source,
                fingerprint=None,
                size=header.follows,
                opener=member.unopened if refused else member.opener(),
                refused=refused,
            )


def _repeated(name: str, seen: set[bytes]) -> Refusal | None:
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()  # names may be long, and there may be many
    if digest in seen:
        return REPEATED
    seen.add(digest)
    return None


def _members(archive: _Archive) -> Iterator[tuple[Header, Said]]:
    """Yield every member that is not a folder, with what was said of it; its bytes are ahead when it is handed out."""
    of_all = next_one = Said()
    while (header := archive.header()) is not None:
        if header.kind == PAX_OF_ALL:
            of_all = archive.records(header).over(of_all)
        elif header.kind in EXTENSIONS:
            next_one = archive.records(header).over(next_one)
        else:
            said, next_one = next_one.over(of_all), Said()
            header = header.of(said)
            archive.begin(header)
            if not header.is_folder:
                yield header, said
            archive.skip()


class _Archive:
    """The bytes of an archive, and how many of them still belong to the member that was reached last."""

    def __init__(self, stream: BinaryIO, most_headers: int) -> None:
        self._stream = cast(io.BufferedReader, stream)
        self._headers_left = most_headers
        self._left = 0
        self._filling = 0
        self._behind = "the beginning"
        self._has_ended = False

    def header(self) -> Header | None:
        """Return the next header, or None at the end. Zero blocks end an archive, and another one may follow them."""
        while not any(block := self._stream.read(BLOCK)):
            if not block:
                if self._has_ended:
                    return None
                raise self._truncated()
            self._has_ended = True
        if len(block) < BLOCK:
            raise self._truncated()
        self._has_ended = False
        self._headers_left -= 1
        if self._headers_left < 0:
            raise Unreadable("zip_bomb", f"too many headers; what is behind {self._behind} was not read")
        try:
            return read_header(block)
        except ValueError as error:
            detail = f"no header behind {self._behind} ({error}); what is there was not read: copy the archive again"
            raise Unreadable("corrupt_archive", detail) from None

    def records(self, header: Header) -> Said:
        """Return what records say; those that are too long are not read, and their member is refused."""
        self.begin(header)
        if header.size > LARGEST_RECORDS:
            self.skip()
            detail = f"{header.size} bytes of records about one member; at most {LARGEST_RECORDS} are read"
            return Said(refused=Refusal("zip_bomb", detail))
        data = self._whole(header.size)
        self.skip()
        if header.kind == LONG_NAME:
            return long_name(data)
        return pax_records(data) if header.kind in (*PAX, PAX_OF_ALL) else Said()

    def begin(self, header: Header) -> None:
        """Go on to the bytes that follow a header."""
        more = header.has_sparse_map
        while more:
            more = more_holes(self._whole(BLOCK, counted=False))
        self._left, self._filling = header.follows, -header.follows % BLOCK
        self._behind = header.name[:200] or self._behind

    def read(self, size: int) -> bytes:
        """Return up to so many bytes of the member, none at its end. Raises Unreadable if the archive ends first."""
        if not self._left:
            return b""
        data = self._stream.read1(min(size, self._left))
        if not data:
            raise self._truncated()
        self._left -= len(data)
        return data

    def held(self) -> tuple[bytes, Unreadable | None]:
        """Return the member's bytes; if they cannot be read to their end, those before, and why."""
        pieces: list[bytes] = []
        try:
            while piece := self.read(_PIECE):
                pieces.append(piece)
        except Unreadable as problem:
            return b"".join(pieces), problem
        return b"".join(pieces), None

    def skip(self) -> None:
        """Go on to the next header."""
        while self.read(_PIECE):
            pass
        self._left, self._filling = self._filling, 0
        while self.read(BLOCK):
            pass

    def _whole(self, size: int, *, counted: bool = True) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise self._truncated()
        self._left -= size if counted else 0
        return data

    def _truncated(self) -> Unreadable:
        return Unreadable("truncated_archive", f"it ends too early, behind or within {self._behind}; copy it again")


class _Member:
    """The bytes of the member that was reached last."""

    def __init__(self, archive: _Archive, size: int, limits: Limits) -> None:
        self._archive = archive
        self._size = size
        self._bound = limits.document + _READ_AHEAD
        self._kept: IO[bytes] | None = None
        self._taken = self._held = 0

    def __enter__(self) -> _Member:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.close()

    def opener(self) -> Callable[[], BinaryIO]:
        """Return what opens it: where it lies, or for a small one the bytes that are held from now on."""
        return partial(_opened, *self._archive.held()) if self._size <= HELD else self._open

    def unopened(self) -> BinaryIO:
        raise AssertionError("a member that is refused is not opened")

    def _open(self) -> BinaryIO:
        return io.BufferedReader(_FromStart(self), _PIECE)

    def read(self, at: int, size: int) -> bytes:
        """Return bytes at a position: those that come next, or some that were taken before."""
        if at == self._taken:
            data = self._archive.read(size)
            self._keep(data)
            self._taken += len(data)
            return data
        if self._kept is None or at >= self._held:
            detail = f"it must be read twice, and has more than {self._bound} bytes; unpack the archive"
            raise Unreadable("too_large", detail)
        self._kept.seek(at)
        return self._kept.read(min(size, self._held - at))

    def _keep(self, data: bytes) -> None:
        if self._taken + len(data) > self._bound or self._held < self._taken:
            return
        try:
            if self._kept is None:
                self._kept = tempfile.TemporaryFile(prefix="drsr-")  # noqa: SIM115  closed at the next member
            self._kept.seek(self._taken)
            self._kept.write(data)
            self._kept.flush()
        except OSError as error:
            what = f"has no room for the beginning of a large file in an archive ({error.strerror})"
            raise InputError(what, where=tempfile.gettempdir(), hint="make room, or set TMPDIR") from None
        self._held += len(data)


def _opened(data: bytes, problem: Unreadable | None) -> BinaryIO:
    return io.BufferedReader(cast(io.RawIOBase, io.BytesIO(data) if problem is None else _Cut(data, problem)))


class _FromStart(io.RawIOBase):
    """A large member from its start."""

    def __init__(self, member: _Member) -> None:
        self._member = member
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._member.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Cut(io.RawIOBase):
    """What there is of a member, and then why there is no more."""

    def __init__(self, data: bytes, problem: Unreadable) -> None:
        self._data = io.BytesIO(data)
        self._problem = problem

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        taken = self._data.readinto(buffer)
        if not taken:
            raise self._problem
        return taken
