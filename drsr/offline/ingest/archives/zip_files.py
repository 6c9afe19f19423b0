"""Zip archives, whose directory at the end says what is in them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

from drsr.offline.ingest.archives.compressed import BUFFER, Bounded, Counted, Readable, Zstd
from drsr.offline.ingest.archives.member_names import LEADS_OUT, REPEATED, is_hidden, is_unsafe
from drsr.offline.store.source_files import Limits, Refusal, SourceFile, Unreadable

_ZIP_ZSTANDARD = 93
_LOCAL_HEADER = 30
"""Bytes before a member's name in a zip archive; the last four are the lengths of the name and of what follows it."""


def zip_members(stream: BinaryIO, file: SourceFile, limits: Limits) -> Iterator[SourceFile]:
    """Yield the members of a zip archive, folder by folder. Raise Unreadable if the archive itself is broken.

    A member that must not be opened carries the reason in `refused`; hidden members are left out.
    """
    try:
        archive = zipfile.ZipFile(stream)  # noqa: SIM115  members are opened through it for as long as it is held
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError) as error:
        raise Unreadable("corrupt_archive", f"not a complete zip archive ({error}); copy it again") from None
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    if len(entries) > limits.members:
        raise Unreadable("zip_bomb", f"{len(entries)} members; at most {limits.members} are read from one archive")
    total = sum(entry.file_size for entry in entries)
    if total > limits.expanded:
        raise Unreadable("zip_bomb", f"unpacks to {total} bytes; at most {limits.expanded} are read from one archive")
    seen: set[str] = set()
    for entry in sorted(entries, key=lambda entry: (entry.filename.split("/")[:-1], entry.filename)):
        name = entry.filename
        refused = _refusal(entry, name in seen, limits)
        if is_hidden(name) and not (refused and refused.reason == "path_traversal"):
            continue
        seen.add(name)
        yield SourceFile(
            location=f"{file.location}!{name}",
            relative=f"{file.relative}!{name}",
            source=file.source,
            fingerprint=f"{entry.CRC:08x}-{entry.file_size}",
            size=entry.file_size,
            opener=partial(_open_member, archive, entry, file.location, limits),
            refused=refused,
        )


def _refusal(entry: zipfile.ZipInfo, repeated: bool, limits: Limits) -> Refusal | None:
    if is_unsafe(entry.filename):
        return LEADS_OUT
    if repeated:
        return REPEATED
    if entry.flag_bits & 0x1:
        return Refusal("encrypted", "the member is encrypted; pack it again without a password")
    if entry.file_size > limits.ratio_floor and entry.file_size > limits.ratio * max(entry.compress_size, 1):
        return Refusal("zip_bomb", f"{entry.compress_size} bytes unpack to {entry.file_size}; at most {limits.ratio}:1")
    return None


def _open_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, location: str, limits: Limits) -> BinaryIO:
    if entry.compress_type == _ZIP_ZSTANDARD:  # which Python's own package knows only from 3.14 on
        packed = Counted(cast(BinaryIO, _Packed(archive, entry)), location)
        return io.BufferedReader(Bounded(_Whole(Zstd(packed), entry), packed, limits), BUFFER)
    try:
        source = archive.open(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Unreadable("corrupt_archive", f"the member cannot be unpacked ({error})") from None
    return io.BufferedReader(Bounded(cast(Readable, source), None, limits), BUFFER)


class _Packed:
    """Return the packed bytes of a member, exactly as in the archive."""

    def __init__(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
        self._file = cast(BinaryIO, archive.fp)
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
            raise Unreadable("corrupt_archive", "the member does not start where the archive says; copy it again")
        self._at = entry.header_offset + _LOCAL_HEADER + sum(struct.unpack("<HH", header[-4:]))
        self._left = entry.compress_size

    def read(self, size: int = -1) -> bytes:
        self._file.seek(self._at)  # members of one archive share the file
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._at += len(data)
        self._left -= len(data)
        return data


class _Whole:
    """Unpacked bytes that must add up to what the archive says of its member."""

    def __init__(self, source: Readable, entry: zipfile.ZipInfo) -> None:
        self._source = source
        self._entry = entry
        self._sum = 0

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._sum = zlib.crc32(data, self._sum)
        if not data and self._sum != self._entry.CRC:
            raise Unreadable("corrupt_archive", "the member's checksum is wrong; copy the archive again")
        return data
