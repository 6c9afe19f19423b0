"""JSON that is too long to hold as text beside its values: an array element by element, or one value piece by piece.

Python's own decoder is asked for one value at a time. What a chunk's end cuts in two is waited for; a list or an object
that is longer than a chunk is put together from its parts, however deep they lie. So nothing is parsed twice except
what was cut, and memory holds the values and a chunk of text.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from drsr.offline.ingest.formats.json_values import (
    DECODER,
    MOST_VALUES,
    commas_of,
    dumps,
    not_utf8,
    refuse_too_many,
    too_many_values,
)
from drsr.offline.store.source_files import Limits, Unreadable

_CHUNK = 4 << 20
_BLANK = re.compile(r"[ \t\r\n]*")
_CUT_TOKEN = 16
"""Characters from the end within which a mistake may only be the chunk's end: the longest token is `\\ud83d\\ude00`."""
_CUT_NUMBER = ("", ".", *(f"{e}{sign}" for e in "eE" for sign in ("", "+", "-")))
"""Characters that may follow the readable part of a number that the chunk's end cuts."""


class _JsonText:
    """The text of a stream, held a chunk at a time, and the values in it."""

    def __init__(self, head: bytes, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limit = limits.document
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = self._decoded(head)
        self._at = 0
        self._before = 0
        """Characters that were taken and are not held any more."""
        self._start = 0
        """Place where the outermost value began."""
        self._values = 0
        """Commas that were taken of it so far."""
        self._ended = False

    def _outermost(self) -> tuple[Any, int]:
        """A value, and the characters that it took."""
        self._next()
        self._start, self._values = self._before + self._at, 0
        try:
            value = self._value()
        except RecursionError:
            raise Unreadable("too_deep", "the JSON is nested deeper than Python can follow") from None
        return value, self._before + self._at - self._start

    def _value(self) -> Any:
        opening = self._next()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:  # which holds the text: nothing further is read in here
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _CUT_TOKEN
                problem = Unreadable("truncated_json" if cut else "bad_json", error.msg)
            else:
                if end >= len(self._text) - 2 and self._text[end:] in _CUT_NUMBER and self._more():
                    continue
                value = self._as_at_once(value, end)
                self._at = end
                self._count(commas_of(value))
                return value
            if cut and opening in "[{" and len(self._text) - self._at >= _CHUNK:
                return self._list() if opening == "[" else self._object()
            if not (cut and self._more()):
                raise problem

    def _as_at_once(self, value: Any, end: int) -> Any:
        """The value as a document that is parsed at once has it: keys are not held once per object."""
        try:
            return orjson.loads(self._text[self._at : end])
        except orjson.JSONDecodeError:
            dumps(value)
            return value

    def _list(self) -> list[Any]:
        """A list whose end is not in sight."""
        self._expect("[")
        values: list[Any] = []
        if self._next() != "]":
            values.append(self._value())
            while self._next() != "]":
                self._expect(",")
                self._count(1)
                values.append(self._value())
        self._expect("]")
        return values

    def _object(self) -> dict[str, Any]:
        """An object whose end is not in sight."""
        self._expect("{")
        values: dict[str, Any] = {}
        if self._next() != "}":
            self._member(values)
            while self._next() != "}":
                self._expect(",")
                self._count(1)
                self._member(values)
        self._expect("}")
        return values

    def _member(self, values: dict[str, Any]) -> None:
        if (found := self._next()) != '"':
            raise Unreadable("bad_json", f"{found!r} where a name should be")
        name = self._value()
        self._expect(":")
        values[name] = self._value()

    def _count(self, commas: int) -> None:
        self._values += commas
        if self._values > MOST_VALUES:
            raise too_many_values()

    def _next(self) -> str:
        """The next character that is not blank; it is not taken."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise Unreadable("truncated_json", "the JSON has no end")

    def _expect(self, character: str) -> None:
        if (found := self._next()) != character:
            raise Unreadable("bad_json", f"{found!r} where {character!r} should be")
        self._at += 1

    def _finish(self) -> None:
        while not self._text[self._at :].strip():
            self._at = len(self._text)
            self._start = self._before + self._at
            if not self._more():
                return
        raise Unreadable("bad_json", "something follows the end of the JSON")

    def _more(self) -> bool:
        """Take in at least as much as is pending, so that a long text is not parsed again and again."""
        if self._ended:
            return False
        pending = len(self._text) - self._at
        if self._before + len(self._text) - self._start > self._limit:
            raise Unreadable("too_large", f"one element of more than {self._limit} characters")
        if pending > MOST_VALUES:  # fewer characters cannot hold too many values
            refuse_too_many(self._text[self._at :].encode("utf-8", "replace"))
        data = self._stream.read(max(_CHUNK, pending))
        self._ended = not data
        self._before += self._at
        self._text, self._at = self._text[self._at :] + self._decoded(data), 0
        return True

    def _decoded(self, data: bytes) -> str:
        try:
            return self._decoder.decode(data, final=False)
        except UnicodeDecodeError as error:
            raise not_utf8(error.object, error) from None


class ArrayStream(_JsonText):
    """Iterates over (element, characters it took). Raises Unreadable where the array breaks."""

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        self._expect("[")
        if self._next() == "]":
            self._expect("]")
            self._finish()
            return
        while True:
            yield self._outermost()
            if self._next() == "]":
                self._expect("]")
                self._finish()
                return
            self._expect(",")


class DocumentStream(_JsonText):
    """Return one value. Nothing may follow it."""

    def read(self) -> tuple[Any, int]:
        """Return the value, and the characters that it took. Raises Unreadable where there is anything else."""
        found = self._outermost()
        self._finish()
        return found
