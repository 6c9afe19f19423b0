"""The report as one static page, with every table beside it as CSV and Markdown. It refers to nothing remote."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from drsr.offline.bench.analyses.analysis import Analysis, Cell, Section, shown
from drsr.offline.bench.report.output_folder import make_folder

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may load: nothing but what stands in the page."""
LONG = 40
"""Rows from which on a table is closed until it is asked for."""
NUMBER = ' class="number"'
INTERVAL = re.compile(r"(\S+) (\[[^\]]*\])")
_ABOUT = (
    '<div><b>About this report</b><a href="#differences">What differs from the paper</a>'
    '<a href="#facts">What the numbers come from</a><a href="#reproduce">To reproduce it</a></div>'
)


class Report(NamedTuple):
    """Everything the page says."""

    title: str
    notice: str
    """What the numbers are not."""
    sections: Sequence[Section]
    differences: Sequence[str]
    """What differs from the paper, and why: one sentence each."""
    facts: Mapping[str, str]
    """Versions and hashes of what the numbers come from."""
    commands: Sequence[str]
    """What reproduces it."""

    @property
    def analyses(self) -> list[Analysis]:
        return [found for section in self.sections for found in section.analyses]

    @property
    def left_out(self) -> dict[str, str]:
        """What could not be made, with the reason."""
        return {name: why for section in self.sections for name, why in section.left_out.items()}


def write_report(folder: Path, report: Report) -> Path:
    """Write `index.html` last, so that a page that is there is complete; gives its path."""
    tables, page = folder / "tables", folder / "index.html"
    make_folder(tables)
    for analysis in report.analyses:
        _write(tables / f"{analysis.name}.csv", analysis.to_csv())
        _write(tables / f"{analysis.name}.md", analysis.to_markdown())
    _write(page, html(report))
    return page


def html(report: Report) -> str:
    """The page. Everything that comes from data is escaped; figures are our own."""
    style = files("drsr.offline.bench.report").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(report.title)}</title><style>{style}</style></head><body>",
        f'<h1>{escape(report.title)}</h1><p class="notice">{escape(report.notice)}</p>',
        f"<nav>{''.join(map(_contents, report.sections))}{_ABOUT}</nav>",
        *(_part(section) for section in report.sections),
        _heading("differences", "What differs from the paper"),
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in report.differences) + "</ul>",
        _heading("facts", "What the numbers come from"),
        _table(("what", "value"), list(report.facts.items())),
        _heading("reproduce", "To reproduce it"),
        f"<pre>{escape(chr(10).join(report.commands))}</pre>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _contents(section: Section) -> str:
    links = "".join(f'<a href="#{found.name}">{escape(found.title)}</a>' for found in section.analyses)
    return f"<div><b>{escape(section.title)}</b>{links}</div>"


def _part(section: Section) -> str:
    left_out = list(section.left_out.items())
    missing = f"<h3>Left out</h3>{_table(('what', 'why'), left_out)}" if left_out else ""
    return f"<h2>{escape(section.title)}</h2>" + "".join(map(_section, section.analyses)) + missing


def _section(found: Analysis) -> str:
    links = " ".join(
        f'<a href="tables/{found.name}.{kind}">{name}</a>' for kind, name in (("csv", "CSV"), ("md", "MD"))
    )
    picture = f"<figure>{found.figure.decode()}</figure>" if found.figure else ""
    says = f'<p>{escape(found.says)} <span class="interval">{links}</span></p>'
    title = f'<h3 id="{found.name}">{escape(found.title)}</h3>'
    table = _table(found.columns, found.rows)
    if len(found.rows) > LONG:  # closed on screen; paper cannot be opened, so there it is shown
        table = f"<details><summary>{len(found.rows):,} rows</summary>{table}</details>"
    return f"<section>{title}{says}{picture}{table}</section>"


def _heading(anchor: str, title: str) -> str:
    return f'<h2 id="{anchor}">{escape(title)}</h2>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    numbers = [bool(rows) and all(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))]
    head = "".join(
        f"<th{NUMBER if is_number else ''}>{escape(name)}</th>"
        for name, is_number in zip(columns, numbers, strict=True)
    )
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Cell) -> str:
    text = escape(shown(value))
    if found := INTERVAL.fullmatch(text):  # it may move to a line of its own, and is never broken
        text = f'{found[1]} <span class="interval">{found[2]}</span>'
    return f"<td{NUMBER if isinstance(value, int | float) else ''}>{text}</td>"


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
