"""The report as one static page, with every table beside it as CSV and Markdown. It refers to nothing remote."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from drsr.offline.evaluation.analyses.analysis import Analysis, Cell, shown


class Report(NamedTuple):
    """Everything the page says."""

    title: str
    notice: str
    """What the numbers are not."""
    facts: Mapping[str, str]
    """Versions and hashes of what the numbers come from."""
    differences: Sequence[str]
    """What differs from the paper, and why: one sentence each."""
    commands: Sequence[str]
    """What reproduces it."""
    analyses: Sequence[Analysis]
    left_out: Mapping[str, str]
    """Analyses that could not be made, with the reason."""


def write_report(folder: Path, report: Report) -> Path:
    """Write `index.html` last, so that a page that is there is complete; gives its path."""
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    for analysis in report.analyses:
        _write(tables / f"{analysis.name}.csv", analysis.to_csv())
        _write(tables / f"{analysis.name}.md", analysis.to_markdown())
    page = folder / "index.html"
    _write(page, html(report))
    return page


def html(report: Report) -> str:
    """The page. Everything that comes from data is escaped; figures are our own."""
    style = files("drsr.offline.evaluation").joinpath("report_page.css").read_text(encoding="utf-8")
    contents = "".join(f'<a href="#{found.name}">{escape(found.title)}</a>' for found in report.analyses)
    left_out = [(name, why) for name, why in report.left_out.items()]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(report.title)}</title><style>{style}</style></head><body>",
        f'<h1>{escape(report.title)}</h1><p class="notice">{escape(report.notice)}</p>',
        f"<nav>{contents}</nav>",
        *(_section(found) for found in report.analyses),
        _heading("left_out", "What is missing here") + _table(("analysis", "why"), left_out) if left_out else "",
        _heading("differences", "What differs from the paper"),
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in report.differences) + "</ul>",
        _heading("facts", "What the numbers come from"),
        _table(("what", "value"), list(report.facts.items())),
        _heading("reproduce", "To reproduce it"),
        f"<pre>{escape(chr(10).join(report.commands))}</pre>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _section(found: Analysis) -> str:
    links = " ".join(
        f'<a href="tables/{found.name}.{kind}">{name}</a>' for kind, name in (("csv", "CSV"), ("md", "MD"))
    )
    picture = f"<figure>{found.figure.decode()}</figure>" if found.figure else ""
    says = f'<p>{escape(found.says)} <span class="soft">{links}</span></p>'
    return _heading(found.name, found.title) + says + picture + _table(found.columns, found.rows)


def _heading(anchor: str, title: str) -> str:
    return f'<h2 id="{anchor}">{escape(title)}</h2>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Cell) -> str:
    kind = ' class="number"' if isinstance(value, int | float) else ""
    return f"<td{kind}>{escape(shown(value))}</td>"


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
