"""The elements of a JSON array that is too long for memory, one after another.

Python's own decoder is asked for one value at a time, so nothing is parsed twice except the element that a chunk's end
cuts in two.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from drsr.offline.ingest.formats.json_values import DECODER, MOST_VALUES, dumps, not_utf8, refuse_too_many
from drsr.offline.store.source_files import Limits, Unreadable

_CHUNK = 4 << 20
_BLANK = re.compile(r"[ \t\r\n]*")
_CUT_TOKEN = 16
"""Characters from the end within which a mistake may only be the chunk's end: the longest token is `\\ud83d\\ude00`."""


class ArrayStream:
    """Iterates over (element, characters it took). Raises Unreadable where the array breaks."""

    def __init__(self, head: bytes, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limit = limits.document
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = self._decoded(head)
        self._at = 0
        self._ended = False

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        self._expect("[")
        if self._next() == "]":
            self._finish()
            return
        while True:
            yield self._element()
            if self._next() == "]":
                self._finish()
                return
            self._expect(",")

    def _element(self) -> tuple[Any, int]:
        self._next()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
                if end < len(self._text) or not self._more():  # a number at the very end may go on
                    size, self._at = end - self._at, end
                    dumps(value)
                    return value, size
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT_TOKEN
                if not (cut and self._more()):
                    raise Unreadable("truncated_json" if cut else "bad_json", error.msg) from None
            except RecursionError:
                raise Unreadable("too_deep", "the JSON is nested deeper than Python can follow") from None

    def _next(self) -> str:
        """The next character that is not blank; it is not taken."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise Unreadable("truncated_json", "the array has no end")

    def _expect(self, character: str) -> None:
        if (found := self._next()) != character:
            raise Unreadable("bad_json", f"{found!r} where {character!r} should be")
        self._at += 1

    def _finish(self) -> None:
        self._at += 1
        while not self._text[self._at :].strip():
            self._at = len(self._text)
            if not self._more():
                return
        raise Unreadable("bad_json", "something follows the end of the array")

    def _more(self) -> bool:
        """Take in at least as much as is pending, so that a long element is not parsed again and again."""
        if self._ended:
            return False
        pending = len(self._text) - self._at
        if pending > self._limit:
            raise Unreadable("too_large", f"one element of more than {self._limit} characters")
        if pending > MOST_VALUES:  # fewer characters cannot hold too many values
            refuse_too_many(self._text[self._at :].encode("utf-8", "replace"))
        data = self._stream.read(max(_CHUNK, pending))
        self._ended = not data
        self._text, self._at = self._text[self._at :] + self._decoded(data), 0
        return True

    def _decoded(self, data: bytes) -> str:
        try:
            return self._decoder.decode(data, final=False)
        except UnicodeDecodeError as error:
            raise not_utf8(error.object, error) from None
