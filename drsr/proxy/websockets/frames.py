"""The frames of a WebSocket (RFC 6455), taken from its bytes as they come; nothing is read that is not a whole text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

TEXT = 0x1
_FINAL = 0x80
_MASKED = 0x80
_LENGTHS = {126: 2, 127: 8}
"""Bytes of a length that does not fit into the second byte."""


class Frame(NamedTuple):
    """One frame, or a piece of a frame that is not read."""

    raw: bytes
    """Bytes of the frame, unchanged."""
    text: bytes | None
    """The message, if the frame is a whole, uncompressed text in one piece."""


class Frames:
    """Splits what one side sends. What is not read passes at once, a text when it is whole."""

    def __init__(self, takes: Callable[[int], bool]) -> None:
        """`takes` says whether to hold a text of that many bytes until it is whole."""
        self._takes = takes
        self._held = bytearray()
        self._passing = 0
        """Bytes of a frame that still pass unread."""
        self._waits_for: int | None = None
        """Bytes of the frame that is held, its head included."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield what is complete now."""
        self._held += data
        while self._held:
            if self._passing:
                yield Frame(self._cut(min(self._passing, len(self._held))), None)
            elif self._waits_for is None and not self._read_head():
                return
            elif self._waits_for is not None:
                if len(self._held) < self._waits_for:
                    return
                raw = self._cut(self._waits_for)
                self._waits_for = None
                yield Frame(raw, _payload(raw))

    def _cut(self, size: int) -> bytes:
        found = bytes(self._held[:size])
        del self._held[:size]
        self._passing = max(self._passing - size, 0)
        return found

    def _read_head(self) -> bool:
        """Return whether the head of the next frame was there."""
        size = _head_size(self._held)
        if size is None:
            return False
        length = _length(self._held)
        if self._held[0] == _FINAL | TEXT and self._takes(length):  # no part of one, and no bit of an extension
            self._waits_for = size + length
        else:
            self._passing = size + length
        return True


def masked(text: bytes) -> bytes:
    """Return a frame with a text, as a client sends it."""
    mask = os.urandom(4)
    size = len(text)
    if size < 126:
        head = bytes([_FINAL | TEXT, _MASKED | size])
    elif size < 1 << 16:
        head = bytes([_FINAL | TEXT, _MASKED | 126]) + size.to_bytes(2)
    else:
        head = bytes([_FINAL | TEXT, _MASKED | 127]) + size.to_bytes(8)
    return head + mask + _unmasked(text, mask)


def _head_size(held: bytearray) -> int | None:
    """Return the size of a frame's head in bytes; None if it is not complete."""
    if len(held) < 2:
        return None
    size = 2 + _LENGTHS.get(held[1] & 0x7F, 0) + (4 if held[1] & _MASKED else 0)
    return size if len(held) >= size else None


def _length(held: bytes | bytearray) -> int:
    short = held[1] & 0x7F
    return int.from_bytes(held[2 : 2 + _LENGTHS[short]]) if short in _LENGTHS else short


def _payload(raw: bytes) -> bytes:
    size = len(raw) - _length(raw)
    return _unmasked(raw[size:], raw[size - 4 : size]) if raw[1] & _MASKED else raw[size:]


def _unmasked(data: bytes, mask: bytes) -> bytes:
    """Masking is its own reverse. As one large number: byte by byte it would take a second for what takes ten
    milliseconds so."""
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(len(data))
