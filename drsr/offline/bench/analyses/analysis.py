"""The result of an analysis: a table, a figure, and words that say how to read both."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from drsr.offline.evaluate.cells import cell
from drsr.offline.train.metrics import Metric, none_if_nan
from drsr.tables import plain_cell

Cell = str | int | float | Metric | None
"""A metric brings its interval along: in brackets for readers, in separate columns for programs."""


class Analysis(NamedTuple):
    name: str
    """Name of its files: `non_compositionality`."""
    title: str
    says: str
    """Description, in a few sentences, of what is measured and how to read it."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    figure: bytes
    """SVG; empty if a table is enough."""

    def to_csv(self) -> str:
        """Return the table with a line of headings."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        with_interval = [any(isinstance(row[at], Metric) for row in self.rows) for at in range(len(self.columns))]
        headings = [
            (name, f"{name}, low", f"{name}, high") if wide else (name,)
            for name, wide in zip(self.columns, with_interval, strict=True)
        ]
        writer.writerow(chain.from_iterable(headings))
        for row in self.rows:
            writer.writerow(map(plain_cell, chain.from_iterable(map(_values, row, with_interval))))
        return stream.getvalue()

    def to_markdown(self) -> str:
        """Return the same for documents."""
        lines = [_line(self.columns), _line(["---"] * len(self.columns))]
        return "\n".join([*lines, *(_line([shown(value) for value in row]) for row in self.rows)]) + "\n"


class Section(NamedTuple):
    """A part of the report: what could be made, and why not the rest."""

    title: str
    analyses: Sequence[Analysis]
    left_out: Mapping[str, str]
    """Reasons for what is left out, by the name of an analysis or a row."""


def shown(value: Cell) -> str:
    """Return a readable cell: three decimals, one from a hundred on, empty for no value."""
    if isinstance(value, Metric):
        return cell(value)
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _values(value: Cell, with_interval: bool) -> list[str | int | float]:
    """Return the values for the columns of one cell; columns without a value are empty."""
    if isinstance(value, Metric):
        numbers = (none_if_nan(number) for number in (value.value, value.low, value.high))
        return ["" if number is None else number for number in numbers]
    return ["" if value is None else value, *(["", ""] if with_interval else [])]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
