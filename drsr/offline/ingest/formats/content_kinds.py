"""Recognise files that hold no JSON in UTF-8 by their first bytes, so that the complaint says what to do."""

from __future__ import annotations

import codecs

from drsr.offline.ingest.formats.json_values import not_utf8
from drsr.offline.store.source_files import Unreadable

_KNOWN_BINARY = (
    (b"SQLite format 3", "an SQLite database; export its rows as JSON lines"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"\x80", "a Python pickle, which is never loaded; export it as JSON lines"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it, or pack it as zip or tar"),
    (b"Rar!", "a rar archive; unpack it, or pack it as zip or tar"),
)


_WIDE_MARKS = (  # the longer ones first: that of UTF-32LE starts with that of UTF-16LE
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def refuse_other_content(head: bytes) -> None:
    """Raise Unreadable for bytes that are not text in UTF-8. `head` is a file's start, without its mark."""
    if b"\0" in head or not head.startswith((b"{", b"[")):
        _refuse_binary(head)
    line = head.partition(b"\n")[0]
    try:
        line.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else only the end of what was looked at
            raise not_utf8(line, error) from None


def _refuse_binary(head: bytes) -> None:
    encoding = _wide_encoding(head)
    if encoding:
        hint = f"convert it first, for instance with iconv -f {encoding} -t utf-8"
        raise Unreadable("encoding", f"{encoding.upper()}; {hint}")
    if head and not head.strip(b"\0"):
        detail = "zero bytes, as an archive without files or a file that was never written; copy it again"
        raise Unreadable("empty", detail)
    for magic, name in _KNOWN_BINARY:
        if head.startswith(magic):
            raise Unreadable("binary", f"not JSON but {name}")
    if b"\0" in head:
        raise Unreadable("binary", "not text: it holds zero bytes")


def _wide_encoding(head: bytes) -> str | None:
    """The name that iconv has for an encoding with several bytes per character: by its mark, or by where zeros are."""
    for mark, name in _WIDE_MARKS:
        if head.startswith(mark):
            return name
    for name, width, first in (("utf-32le", 4, 0), ("utf-32be", 4, 3), ("utf-16le", 2, 0), ("utf-16be", 2, 1)):
        opening = head[first : first + 1]
        zeros = [head[offset::width].count(0) for offset in range(width) if offset != first]
        if opening in (b"{", b"[", b" ", b"\n", b"\r") and min(zeros) > 0.4 * (len(head) / width):
            return name
    return None


def text_advice(head: bytes) -> str | None:
    """Return what a text file is that holds no JSON, and what to do, where its first bytes tell."""
    if head.lstrip().startswith((b"# aider chat started", b"TO LLM ")):
        return "a history that Aider wrote as text; log its model calls through a LiteLLM callback and read that log"
    first = head.partition(b"\n")[0]
    if first.count(b",") >= 2 and b"messages" in first:
        return "a CSV file; write the same rows as JSON lines or Parquet"
    return None
