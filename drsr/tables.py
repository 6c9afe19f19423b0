"""Plain text tables for terminals and logs, and text from strangers made safe to print."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "  ") -> str:
    """Return columns as wide as their longest cell; numbers to the right, text to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    right = [
        bool(rows) and all(value is None or isinstance(value, (int, float)) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(headers)
    lines = [list(headers), ["-" * width for width in widths], *cells]
    return "\n".join(
        (
            indent
            + "  ".join(
                cell.rjust(width) if is_number else cell.ljust(width)
                for cell, width, is_number in zip(line, widths, right, strict=True)
            )
        ).rstrip()
        for line in lines
    )


def printable(text: str, keep: str = "") -> str:
    """Return the text without a character that could move a terminal's cursor, colour it or turn the reading
    direction."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in keep else "?" for character in text)


_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[-+][\d.,]+%?(?: \[[-+\d.,% ]+\])?")
"""A number with a sign, and perhaps its interval: no formula."""


def plain_cell(value: object) -> object:
    """Return a cell of a CSV file that is opened as a sheet: text from strangers must not begin a formula there."""
    if not isinstance(value, str) or not value.startswith(_STARTS_A_FORMULA) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def excerpt(text: str, length: int = 48) -> str:
    """Return the beginning of a text on one line, without a character that could move a terminal's cursor."""
    head = " ".join(text[: 4 * length].split())
    head = printable(head)
    return head if len(head) <= length else head[: length - 1] + "…"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))
