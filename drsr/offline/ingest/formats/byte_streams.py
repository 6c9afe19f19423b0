"""Taking bytes from a stream of unknown length: what is left of it, up to a limit; the rest of a line; putting back."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

_PIECE = 1 << 20


def taken(stream: BinaryIO, limit: int, start: bytes = b"") -> bytes:
    """`start` and what is left of a stream, at most so many bytes of it.

    In growing pieces, because a read sets aside all it is asked for.
    """
    pieces, size = [start], _PIECE
    while limit > 0 and (piece := stream.read(min(limit, size))):
        pieces.append(piece)
        limit -= len(piece)
        size *= 2
    return b"".join(pieces)


def put_back(data: bytes, stream: BinaryIO, buffer: int = _PIECE) -> BinaryIO:
    """Return a stream as it was before these bytes were read from it. `buffer`: how many bytes of it are held ready."""
    return io.BufferedReader(_Joined(io.BytesIO(data), stream), buffer)


class _Joined(io.RawIOBase):
    """Two streams, one after the other."""

    def __init__(self, first: BinaryIO, second: BinaryIO) -> None:
        self._first = first
        self._second = second

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first.read(len(buffer)) or self._second.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def skip_line(stream: BinaryIO) -> None:
    """Go on after the end of the line."""
    while (rest := stream.readline(_PIECE)) and not rest.endswith(b"\n"):
        pass
