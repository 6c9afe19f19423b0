"""What an analysis gives: a table, a figure, and words that say how to read both."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Cell = str | int | float | None


class Analysis(NamedTuple):
    name: str
    """Of its files: `non_compositionality`."""
    title: str
    says: str
    """What is measured and how to read it, in a few sentences."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    figure: bytes
    """SVG; empty where a table says it all."""

    def to_csv(self) -> str:
        """The table with a line of headings."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if value is None else value for value in row] for row in self.rows])
        return stream.getvalue()

    def to_markdown(self) -> str:
        """The same for documents."""
        lines = [_line(self.columns), _line(["---"] * len(self.columns))]
        return "\n".join([*lines, *(_line([shown(value) for value in row]) for row in self.rows)]) + "\n"


class Section(NamedTuple):
    """A part of the report: what could be made, and why not the rest."""

    title: str
    analyses: Sequence[Analysis]
    left_out: Mapping[str, str]
    """By the name of an analysis or a row."""


def shown(value: Cell) -> str:
    """A cell as people read it: three decimals, one from a hundred on, nothing for nothing."""
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
