"""JSON text to values: quick where it is plain JSON, patient where frameworks bend it, exact about what is wrong."""

from __future__ import annotations

import json
from typing import Any

import orjson

from drsr.offline.store.source_files import Unreadable

_LARGEST = 1 << 63
MOST_VALUES = 4_000_000
"""Values in one JSON document. Each takes up to a hundred bytes once it is read, whatever it takes in the file: without
a bound, 60 MB of `[],[],[]` become 1.9 GB. A run of 100,000 tokens has some thousands."""
_PIECE = 1 << 20


def whole_number(digits: str) -> int | float:
    """Return an integer, or the nearest float where it does not fit 64 bits: what orjson does, so that both paths
    agree."""
    return value if -_LARGEST <= (value := int(digits)) < 2 * _LARGEST else float(value)


DECODER = json.JSONDecoder(parse_constant=str, parse_int=whole_number)
"""Reads NaN and Infinity, which JSON does not have but Python writes, as the strings of that name."""


def loads(data: bytes) -> Any:
    """Return the value that the bytes spell. Raises Unreadable with the place of the mistake."""
    refuse_too_many(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return _loads_patiently(data, error)


def refuse_too_many(data: bytes) -> None:
    """Raise Unreadable for JSON text with more values than a run can have. A comma inside a string does not count."""
    if data.count(b",") > MOST_VALUES and _commas(data) > MOST_VALUES:
        raise too_many_values()


def too_many_values() -> Unreadable:
    """Return the complaint about a document that would take too much memory."""
    what = f"one JSON document of more than {MOST_VALUES:,} values; write one run per line"
    return Unreadable("too_many_values", what)


def commas_of(value: Any) -> int:
    """Count the commas between the elements of a value."""
    count, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list | dict) and found:
            count += len(found) - 1
            waiting.extend(found.values() if isinstance(found, dict) else found)
    return count


def _commas(data: bytes) -> int:
    """Count the commas outside of strings, a piece at a time."""
    count, start, inside = 0, 0, 0
    while start < len(data):
        end = start + _PIECE
        while data[end - 1 : end] == b"\\":  # what it escapes belongs to it
            end += 1
        between = data[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        count += sum(text.count(b",") for text in between[inside::2])
        inside, start = (inside + len(between) - 1) % 2, end
    return count


def dumps(value: Any) -> str:
    """JSON text of a value that was read from JSON, keys in their order."""
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise not_encodable(error) from None


def not_encodable(error: TypeError) -> Unreadable:
    """Return why orjson will not write a value that came from JSON."""
    text = str(error)
    if "surrogates" in text:
        return Unreadable(
            "lone_surrogate", "a text holds half of a surrogate pair, which is not Unicode; repair the text"
        )
    if "ecursion" in text:
        return Unreadable("too_deep", "the JSON is nested deeper than 254 levels")
    return Unreadable("bad_json", f"a value cannot be written as JSON again ({text})")


def _loads_patiently(data: bytes, first: orjson.JSONDecodeError) -> Any:
    try:
        value = DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise not_utf8(data, error) from None
    except RecursionError:
        raise Unreadable("too_deep", "the JSON is nested deeper than Python can follow") from None
    except ValueError:
        truncated = first.pos >= len(first.doc.rstrip())
        reason = "truncated_json" if truncated else "bad_json"
        raise Unreadable(reason, f"{first.msg} at character {first.pos}") from None
    dumps(value)
    return value


def not_utf8(data: bytes, error: UnicodeDecodeError) -> Unreadable:
    """Return the complaint about bytes that are not UTF-8."""
    shown = f"byte 0x{data[error.start]:02x} at offset {error.start}"
    return Unreadable("encoding", f"not UTF-8 ({shown}); convert it first, for instance with iconv -f latin1 -t utf-8")
