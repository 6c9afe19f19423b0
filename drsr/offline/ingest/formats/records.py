"""Bytes to records: a JSON document, a top-level array, JSON lines, documents one after another, or a table's rows.

Whatever the layout, a file becomes a stream of values with their places, so that a list of runs is read the same way as
one run per line, and a bare list of messages the same way as one message per line. Memory holds one line, one document
up to `Limits.document`, or one element of a long array at a time.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from drsr.offline.ingest.formats.array_stream import ArrayStream, DocumentStream
from drsr.offline.ingest.formats.byte_streams import put_back, skip_line, taken
from drsr.offline.ingest.formats.columnar import Layout, layout_of, rows
from drsr.offline.ingest.formats.content_kinds import refuse_other_content, text_advice
from drsr.offline.ingest.formats.json_values import DECODER, dumps, loads
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.store.source_files import Limits, Unreadable

_WHOLE = 16 << 20
"""Bytes up to which a document is parsed in one go, which is quicker; longer arrays are streamed."""
_FIRST_LINE = 8 << 20
_READY = 1 << 16
"""Bytes of a file of lines that are held ready: more would be more than its lines take."""
_BLANK = re.compile(rb"[ \t\r\n]*")
_NOT_BLANK = re.compile(r"[^ \t\r\n]")


class Record(NamedTuple):
    """One JSON value of a file."""

    place: str
    """File, and line or index where there are several: `runs.jsonl:17`, `runs.json[3]`."""
    value: Any
    number: int
    """Position in its file, from 0."""
    size: int
    """Bytes it was read from, as far as known; 0 where the whole file was small."""


class NotOneDocument(Exception):
    """A large file that looked like a document is not one, or has a mistake: it must be read again from its start."""


def records(
    stream: BinaryIO, location: str, limits: Limits, size: int | None = None, *, is_document: bool = True
) -> Iterator[Record | Quarantined]:
    """Yield every JSON value of a file in order, and a Quarantined for what is not JSON. Raise Unreadable for the
    whole.

    `is_document`: a large file that may be one document is read as one, which takes half the memory. NotOneDocument,
    before anything is handed out, if it is not. `size` is that of the file in bytes, where it is known.
    """
    layout = layout_of(cast(io.BufferedReader, stream).peek(8)[:8])
    if layout:
        found = _rows(stream, layout, location, limits)
    else:
        opening = _opening(stream)
        if opening == b"{" and is_document and (size is None or size >= _WHOLE):
            head = _beginning(stream)
            if len(head) >= _WHOLE:
                yield _spelled_out(_large_document(put_back(head, stream), location, limits))
                return
            stream = put_back(head, stream, _READY)
        found = (_array if opening == b"[" else _objects)(stream, location, limits)
    try:
        for item in found:
            yield _spelled_out(item) if isinstance(item, Record) else item
    except Unreadable as problem:
        yield Quarantined(location, problem.reason, problem.detail)


def _spelled_out(record: Record) -> Record:
    value = _with_columns_spelled_out(record.value)
    return record if value is record.value else record._replace(value=value)


def _beginning(stream: BinaryIO) -> bytes:
    """The first bytes, _WHOLE of them where they may begin a document that is larger: not where lines show."""
    head = stream.readline(_WHOLE)
    follows = cast(io.BufferedReader, stream).peek(1)[:1]
    are_lines = head.endswith(b"\n") and (follows in (b"{", b"[") or not _parsed(_Line(1, head)).problem)
    return head if are_lines else taken(stream, _WHOLE - len(head), head)


def _large_document(stream: BinaryIO, location: str, limits: Limits) -> Record:
    """One object, put together as it comes. Raises NotOneDocument: what it is then takes more to find out."""
    try:
        value, size = DocumentStream(b"", stream, limits).read()
    except Unreadable:
        raise NotOneDocument from None
    return Record(location, value, 0, size)


def _rows(stream: BinaryIO, layout: Layout, location: str, limits: Limits) -> Iterator[Record | Quarantined]:
    for number, (row, size) in enumerate(rows(stream, layout, limits)):
        yield Record(f"{location}[{number}]", row, number, size)


def document(stream: BinaryIO, limits: Limits) -> Any:
    """Return the one JSON value that a file holds. Raises Unreadable."""
    _opening(stream)
    data = taken(stream, limits.document + 1)
    if len(data) > limits.document:
        raise _too_large(limits)
    return loads(data)


def _opening(stream: BinaryIO) -> bytes:
    """The first byte that is not blank: `{` or `[`. Raises Unreadable where no JSON value can start like this."""
    head = cast(io.BufferedReader, stream).peek(8192)
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
        head = head[len(codecs.BOM_UTF8) :]
    refuse_other_content(head)
    opening = head[cast(re.Match[bytes], _BLANK.match(head)).end() :][:1]
    if not opening:
        if len(head) < 1024:
            raise Unreadable("empty", "the file holds nothing")
        return b"{"  # a long blank lead; the line reader skips it
    if opening not in (b"{", b"["):
        detail = "a text file; recorded runs are JSON, which starts with { or ["
        raise Unreadable("not_data", text_advice(head) or detail)
    return opening


# --- files that start with { -------------------------------------------------------------------------------------


def _objects(stream: BinaryIO, location: str, limits: Limits) -> Iterator[Record | Quarantined]:
    """One object, or one per line, or several one after another."""
    lines = _lines(stream, limits.document)
    first = next(lines, None)
    if first is None:
        raise Unreadable("empty", "the file holds nothing")
    is_closed = first.data is not None and first.data.rstrip().endswith(b"}")
    if not is_closed or (parsed := _parsed(first)).problem:
        yield from _over_lines(first, stream, location, limits)
        return
    second = next(lines, None)
    del first  # a large document is not held as bytes while its runs are read
    if second is None:
        yield Record(location, parsed.value, 0, parsed.size)
    else:
        yield from _json_lines(chain([parsed], map(_parsed, chain([second], lines))), location)


def _over_lines(first: _Line, stream: BinaryIO, location: str, limits: Limits) -> Iterator[Record | Quarantined]:
    """Read a file whose first line is not JSON. It is usually one document over several lines: that is tried first."""
    follows = cast(io.BufferedReader, stream).peek(1)[:1]
    if first.data is None or follows in (b"{", b"["):  # lines, as it seems
        yield from _broken_start(first, stream, location, limits)
        return
    most = min(_WHOLE, limits.document)
    held = taken(stream, most - len(first.data), first.data)
    if len(held) < most:
        try:
            value = loads(held)
        except Unreadable:
            pass  # what it is then is found out line by line
        else:
            yield Record(location, value, 0, len(held))
            return
    yield from _broken_start(first, put_back(held[len(first.data) :], stream), location, limits)


def _broken_start(first: _Line, stream: BinaryIO, location: str, limits: Limits) -> Iterator[Record | Quarantined]:
    """A file whose first line is not JSON: JSON lines with a bad first line, or documents over several lines."""
    limit = limits.document
    is_whole = first.data is not None  # whether everything from the first line on is held
    number = first.number - 1 if is_whole else first.number
    held, are_lines = _until_lines_show(stream, first.data or b"", limit)
    while len(held) > limit and not are_lines:
        if not held.endswith(b"\n"):
            skip_line(stream)
            number += 1
        number += held.count(b"\n")
        is_whole = False
        held, are_lines = _until_lines_show(stream, b"", limit)
    if are_lines and not (is_whole and _starts_with_document(held)):
        if not is_whole:
            detail = f"lines {first.number} to {number}: no JSON, or longer than the limit for one document"
            yield Quarantined(f"{location}:{first.number}", "too_large", detail, count=number - first.number + 1)
        yield from _lines_from(held, number, stream, location, limits)
        return
    held = taken(stream, limit - len(held) + 1, held)
    if not is_whole or len(held) > limit:
        raise _too_large(limits)
    try:
        value, size = loads(held), len(held)
    except Unreadable as problem:  # or several documents over several lines, one after another
        yield from _one_after_another(held, location, problem)
    else:
        del held, first  # a large document is not held as bytes while its runs are read
        yield Record(location, value, 0, size)


def _one_after_another(data: bytes, location: str, problem: Unreadable) -> Iterator[Record | Quarantined]:
    """Read one indented object after another, as programs print them. `problem` is why it is not one document."""
    if problem.reason == "encoding":
        raise problem
    text, position, number = data.decode(), 0, 0
    while (match := _NOT_BLANK.search(text, position)) is not None:
        try:
            value, position = DECODER.raw_decode(text, match.start())
            dumps(value)
        except (ValueError, RecursionError):
            yield Quarantined(f"{location}[{number}]" if number else location, problem.reason, problem.detail)
            return
        yield Record(f"{location}[{number}]", value, number, len(data))
        number += 1


# --- files that start with [ -------------------------------------------------------------------------------------


def _array(stream: BinaryIO, location: str, limits: Limits) -> Iterator[Record | Quarantined]:
    """One array, or one array per line."""
    head = stream.readline(min(_FIRST_LINE, limits.document))
    if head.endswith(b"\n"):
        parsed = _parsed(_Line(1, head))
        if not parsed.problem:
            lines = _lines(stream, limits.document, number=1)
            second = next(lines, None)
            if second is None:
                yield from _elements(parsed.value, location)
            else:
                yield from _json_lines(chain([parsed], map(_parsed, chain([second], lines))), location)
            return
        is_laid_out = head.strip() == b"["  # one element per line: what is damaged there, the stream below finds
        if not is_laid_out:
            head, are_lines = _until_lines_show(stream, head, min(_WHOLE, limits.document))
            if are_lines and not _starts_with_document(head):
                yield from _lines_from(head, 0, stream, location, limits)
                return
    if len(head) < _WHOLE:
        head = taken(stream, _WHOLE - len(head), head)
    if len(head) < _WHOLE:
        parsed = _parsed(_Line(1, head))
        if not parsed.problem:
            yield from _elements(parsed.value, location)
            return
        # The stream below keeps the good elements and says where it breaks.
    yield from _streamed(ArrayStream(head, stream, limits), location)


def _elements(value: list[Any], location: str) -> Iterator[Record]:
    for number, element in enumerate(value):
        yield Record(f"{location}[{number}]", element, number, 0)


def _streamed(elements: ArrayStream, location: str) -> Iterator[Record | Quarantined]:
    number = 0
    try:
        for value, size in elements:
            yield Record(f"{location}[{number}]", value, number, size)
            number += 1
    except Unreadable as problem:
        yield Quarantined(f"{location}[{number}]", problem.reason, problem.detail)


# --- lines -------------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    number: int
    data: bytes | None
    """None where the line is longer than the limit."""


class _Parsed(NamedTuple):
    number: int
    value: Any
    problem: Unreadable | None
    size: int


def _lines(stream: BinaryIO, limit: int, *, number: int = 0) -> Iterator[_Line]:
    """The lines that are not blank."""
    while data := stream.readline(limit + 1):
        number += 1
        if len(data) > limit and not data.endswith(b"\n"):
            skip_line(stream)
            yield _Line(number, None)
        elif not data.isspace():
            yield _Line(number, data)


def _parsed(line: _Line) -> _Parsed:
    if line.data is None:
        problem = Unreadable("too_large", "a line longer than the limit for one document; it was skipped")
        return _Parsed(line.number, None, problem, 0)
    try:
        return _Parsed(line.number, loads(line.data), None, len(line.data))
    except Unreadable as problem:
        return _Parsed(line.number, None, problem, len(line.data))


def _until_lines_show(stream: BinaryIO, head: bytes, limit: int) -> tuple[bytes, bool]:
    """`head` and the lines after it, until they show that they cannot be parts of one document.

    Within a document, a line that is a whole object or array follows a `:`, `,` or `[`, and something that goes on
    or closes follows it. Indented lines do not count: they stand in a document that is damaged. Ends with False at
    the end of the stream, or with more than `limit` bytes.
    """
    held = bytearray(head)
    before = head.rstrip()[-1:]
    is_sound = False
    while len(held) <= limit:
        line = stream.readline(limit - len(held) + 1)
        if not line:
            return bytes(held), is_sound  # a document cannot end like this
        held += line
        text = line.strip()
        if not text:
            continue
        if is_sound and text[:1] not in (b",", b"}", b"]"):
            if not line.endswith(b"\n"):
                held += stream.readline(limit)
            return bytes(held), True
        is_sound = line[:1] in (b"{", b"[") and text[-1:] in (b"}", b"]") and not _parsed(_Line(0, line)).problem
        if is_sound and before not in (b"", b":", b",", b"[") and line.endswith(b"\n"):
            return bytes(held), True
        before = text[-1:]
    return bytes(held), False


def _starts_with_document(data: bytes) -> bool:
    """Return whether the first line and those after it make a document."""
    try:
        text = data.decode()
        start = cast(re.Match[str], _NOT_BLANK.search(text)).start()
        _, end = DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return False
    return "\n" in text[start:end]


def _lines_from(
    held: bytes, number: int, stream: BinaryIO, location: str, limits: Limits
) -> Iterator[Record | Quarantined]:
    """JSON lines after those that were read already. `number` is that of the line before them."""
    already = _lines(io.BytesIO(held), limits.document, number=number)
    rest = _lines(stream, limits.document, number=number + held.count(b"\n"))
    yield from _json_lines(map(_parsed, chain(already, rest)), location)


def _json_lines(lines: Iterator[_Parsed], location: str) -> Iterator[Record | Quarantined]:
    for number, line in enumerate(lines):
        place = f"{location}:{line.number}"
        if line.problem:
            yield Quarantined(place, line.problem.reason, line.problem.detail)
        else:
            yield Record(place, line.value, number, line.size)


def _too_large(limits: Limits) -> Unreadable:
    return Unreadable("too_large", f"one JSON document of more than {limits.document} bytes; write one run per line")


# --- columns of a dataset that hold JSON as text: a table without nested types keeps messages in a string ----------

_COLUMNS = ("messages", "conversations", "conversation", "trajectory", "traj", "history", "contents", "tools")
"""Names under which runs are kept; text under any other name stays text."""


def _with_columns_spelled_out(value: Any) -> Any:
    """The same record with the lists in place of the strings that spell them; anything else as it is."""
    if type(value) is not dict:
        return value
    spelled = {column: found for column in _COLUMNS if (found := _spelled_list(value.get(column))) is not None}
    tools = value.get("tools")
    if type(tools) is list and tools and all(type(tool) is str for tool in tools):
        spelled["tools"] = [_spelled_value(tool) for tool in tools]
    return {**value, **spelled} if spelled else value


def _spelled_list(text: Any) -> list[Any] | None:
    if not isinstance(text, str) or not text.lstrip().startswith("["):
        return None
    found = _spelled_value(text)
    return found if isinstance(found, list) else None


def _spelled_value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
