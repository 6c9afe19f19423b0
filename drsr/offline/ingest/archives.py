"""Compressed files and archives, recognised by their first bytes and unpacked as a stream, never to disk.

A bomb is stopped by two bounds, the total and the ratio, counted while unpacking and not believed from a header.
Archives inside archives are refused: one layer of packing around one layer of compression is what people have.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Literal, Protocol, cast

from drsr.errors import DrsrError, MissingExtra
from drsr.offline.store.source_files import Limits, Refusal, SourceFile, Unreadable, storage_errors

Packing = Literal["zip", "gzip", "bzip2", "xz", "zstd"]

_MAGIC: tuple[tuple[bytes, Packing], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),  # an archive without members
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_UNSAFE_NAME = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)|\x00")
_ZSTD_INPUT = 1 << 10
"""Bytes given to the zstd decoder at once: a run-length block turns 4 bytes into 128 KiB, so this bounds memory."""
_BUFFER = 1 << 17
_ZIP_ZSTANDARD = 93
_LOCAL_HEADER = 30
"""Bytes before a member's name in a zip archive; the last four are the lengths of the name and of what follows it."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def packing(stream: BinaryIO) -> Packing | None:
    """Return how the bytes ahead are packed, or None; nothing is consumed."""
    head = cast(io.BufferedReader, stream).peek(6)[:6]
    if head.startswith((b"{", b"[")):  # as nearly always
        return None
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def unpacked(stream: BinaryIO, kind: Packing, location: str, limits: Limits) -> BinaryIO:
    """Return the decompressed bytes of a stream. Reading them raises Unreadable where they are corrupt or a bomb."""
    packed = _Counted(stream, location)
    source: _Readable
    if kind == "gzip":
        source = gzip.GzipFile(fileobj=cast(Any, packed), mode="rb")
    elif kind == "bzip2":
        source = bz2.BZ2File(cast(Any, packed), "rb")
    elif kind == "xz":
        source = lzma.LZMAFile(cast(Any, packed), "rb")  # noqa: SIM115  closed with the stream around it
    else:
        source = _Zstd(packed)
    return io.BufferedReader(_Bounded(source, packed, limits), _BUFFER)


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
        if _is_hidden(name) and not (refused and refused.reason == "path_traversal"):
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
    if _UNSAFE_NAME.search(entry.filename):
        return Refusal("path_traversal", "the member's name leads out of the archive; pack it again with plain names")
    if repeated:
        return Refusal("duplicate_member", "the archive holds another member of this name; only the first is read")
    if entry.flag_bits & 0x1:
        return Refusal("encrypted", "the member is encrypted; pack it again without a password")
    if entry.file_size > limits.ratio_floor and entry.file_size > limits.ratio * max(entry.compress_size, 1):
        return Refusal("zip_bomb", f"{entry.compress_size} bytes unpack to {entry.file_size}; at most {limits.ratio}:1")
    return None


def _is_hidden(name: str) -> bool:
    return name.startswith("__MACOSX/") or any(part.startswith(".") for part in name.split("/"))


def _open_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, location: str, limits: Limits) -> BinaryIO:
    if entry.compress_type == _ZIP_ZSTANDARD:  # which Python's own package knows only from 3.14 on
        packed = _Counted(cast(BinaryIO, _Packed(archive, entry)), location)
        return io.BufferedReader(_Bounded(_Whole(_Zstd(packed), entry), packed, limits), _BUFFER)
    try:
        source = archive.open(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Unreadable("corrupt_archive", f"the member cannot be unpacked ({error})") from None
    return io.BufferedReader(_Bounded(cast(_Readable, source), None, limits), _BUFFER)


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

    def __init__(self, source: _Readable, entry: zipfile.ZipInfo) -> None:
        self._source = source
        self._entry = entry
        self._sum = 0

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._sum = zlib.crc32(data, self._sum)
        if not data and self._sum != self._entry.CRC:
            raise Unreadable("corrupt_archive", "the member's checksum is wrong; copy the archive again")
        return data


class _Counted:
    """A packed stream that knows how many bytes were taken from it and whose failures are failures of storage."""

    def __init__(self, stream: BinaryIO, location: str) -> None:
        self._stream = stream
        self._location = location
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        with storage_errors(self._location):
            data = self._stream.read(size)
        self.taken += len(data)
        return data


class _Bounded(io.RawIOBase):
    """Unpacked bytes, counted against the limits; a decoder's complaints become Unreadable."""

    def __init__(self, source: _Readable, packed: _Counted | None, limits: Limits) -> None:
        self._source = source
        self._packed = packed
        self._limits = limits
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._source.read(len(buffer))
        except (DrsrError, Unreadable):
            raise
        except EOFError:
            raise Unreadable("truncated_archive", "the compressed data ends too early; copy it again") from None
        except Exception as error:  # every codec has exceptions of its own; all mean that the bytes are damaged
            raise Unreadable("corrupt_archive", f"cannot be unpacked ({type(error).__name__}: {error})") from None
        self._given += len(data)
        self._check()
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed and isinstance(self._source, io.IOBase):
            self._source.close()
        super().close()

    def _check(self) -> None:
        limits = self._limits
        if self._given > limits.expanded:
            raise Unreadable("zip_bomb", f"unpacks to more than {limits.expanded} bytes")
        if self._packed and self._given > max(limits.ratio_floor, limits.ratio * self._packed.taken):
            raise Unreadable("zip_bomb", f"unpacks to more than {limits.ratio} times its size")


class _Zstd:
    """A zstd decoder that notices a stream cut short, which the package's own stream reader does not."""

    def __init__(self, packed: _Counted) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtra("zstandard", "offline", needed_for="reading .zst files") from None
        self._packed = packed
        self._decoders = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        self._decoder = self._decoders.decompressobj()
        self._started = False
        self._ready = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        while self._at == len(self._ready):
            data = self._decoder.unused_data if self._decoder.eof else b""
            data = data or self._packed.read(_ZSTD_INPUT)
            if not data:
                if self._started and not self._decoder.eof:
                    raise EOFError
                return b""
            if self._decoder.eof:
                self._decoder = self._decoders.decompressobj()
            self._started = True
            self._ready, self._at = self._decoder.decompress(data), 0
        given = self._ready[self._at : self._at + size]
        self._at += len(given)
        return given
