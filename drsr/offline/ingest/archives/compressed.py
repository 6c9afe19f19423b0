"""Packed files, recognised by their first bytes; compressed ones are unpacked as a stream.

A bomb is stopped by two bounds, the total and the ratio, counted while unpacking and not believed from a header.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, cast

from drsr.errors import DrsrError, MissingExtra
from drsr.offline.ingest.archives.tar_headers import BLOCK, begins_tar
from drsr.offline.store.source_files import Limits, Unreadable, storage_errors

Compression = Literal["gzip", "bzip2", "xz", "zstd"]
Packing = Compression | Literal["zip", "tar"]

_MAGIC: tuple[tuple[bytes, Packing], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),  # an archive without members
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_ZSTD_INPUT = 1 << 10
"""Bytes given to the zstd decoder at once: a run-length block turns 4 bytes into 128 KiB, so this bounds memory."""
BUFFER = 1 << 17


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Layers(NamedTuple):
    """What is around a file's content."""

    compression: Compression | None
    archive: Literal["zip", "tar"] | None
    stream: BinaryIO
    """The archive's bytes, or the content's where there is none."""


def peeled(stream: BinaryIO, location: str, limits: Limits) -> Layers:
    """Return a file's bytes without the compression around them. Raises Unreadable for more than people have."""
    kind = packing(stream)
    if kind is None or kind == "zip" or kind == "tar":
        return Layers(None, kind, stream)
    plain = unpacked(stream, kind, location, limits)
    inner = packing(plain)
    if inner is None or inner == "tar":
        return Layers(kind, inner, plain)
    raise Unreadable("nested_archive", "packed twice; unpack it once")


def packing(stream: BinaryIO) -> Packing | None:
    """Return how the bytes ahead are packed, or None; nothing is consumed."""
    head = cast(io.BufferedReader, stream).peek(BLOCK)[:BLOCK]
    if begins_tar(head):
        return "tar"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def unpacked(stream: BinaryIO, kind: Compression, location: str, limits: Limits) -> BinaryIO:
    """Return the decompressed bytes of a stream. Reading them raises Unreadable where they are corrupt or a bomb."""
    packed = Counted(stream, location)
    source: Readable
    if kind == "gzip":
        source = gzip.GzipFile(fileobj=cast(Any, packed), mode="rb")
    elif kind == "bzip2":
        source = bz2.BZ2File(cast(Any, packed), "rb")
    elif kind == "xz":
        source = lzma.LZMAFile(cast(Any, packed), "rb")  # noqa: SIM115  closed with the stream around it
    else:
        source = Zstd(packed)
    return io.BufferedReader(Bounded(source, packed, limits), BUFFER)


class Counted:
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


class Bounded(io.RawIOBase):
    """Unpacked bytes, counted against the limits; a decoder's complaints become Unreadable."""

    def __init__(self, source: Readable, packed: Counted | None, limits: Limits) -> None:
        self._source = source
        self._packed = packed
        self._limits = limits
        self._given = 0
        self._problem: Unreadable | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._problem is not None:  # a codec that has failed may go on with anything
            raise self._problem
        try:
            data = self._read(len(buffer))
            self._given += len(data)
            self._check()
        except Unreadable as problem:
            self._problem = problem
            raise
        buffer[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        try:
            return self._source.read(size)
        except (DrsrError, Unreadable):
            raise
        except EOFError:
            raise Unreadable("truncated_archive", "the compressed data ends too early; copy it again") from None
        except Exception as error:  # every codec has exceptions of its own; all mean that the bytes are damaged
            raise Unreadable("corrupt_archive", f"cannot be unpacked ({type(error).__name__}: {error})") from None

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


class Zstd:
    """A zstd decoder that notices a stream cut short, which the package's own stream reader does not."""

    def __init__(self, packed: Counted) -> None:
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
        while len(self._ready) - self._at < BLOCK and (more := self._next()) is not None:  # what shows a tar archive
            self._ready, self._at = self._ready[self._at :] + more, 0
        given = self._ready[self._at : self._at + size]
        self._at += len(given)
        if not given and self._started and not self._decoder.eof:
            raise EOFError
        return given

    def _next(self) -> bytes | None:
        data = self._decoder.unused_data if self._decoder.eof else b""
        data = data or self._packed.read(_ZSTD_INPUT)
        if not data:
            return None
        if self._decoder.eof:
            self._decoder = self._decoders.decompressobj()
        self._started = True
        return self._decoder.decompress(data)
