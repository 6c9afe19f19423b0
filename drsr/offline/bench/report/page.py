"""The report as one static page, with every table next to it as CSV and Markdown. It refers to nothing remote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from drsr.offline.bench.analyses.analysis import Analysis, Cell, Section, shown
from drsr.offline.bench.report.output_folder import make_folder
from drsr.pages import Cell as PageCell
from drsr.pages import Markup, document, element, items, table, together, write_page

LONG = 40
"""Number of rows from which a table is collapsed at first."""
INTERVAL = re.compile(r"(\S+) (\[[^\]]*\])")
_ABOUT = {
    "differences": "What differs from the paper",
    "facts": "Origin of the numbers",
    "reproduce": "Commands that reproduce it",
}


class Report(NamedTuple):
    """The whole content of the page."""

    title: str
    notice: str
    """Warning about what the numbers do not show."""
    sections: Sequence[Section]
    differences: Sequence[str]
    """Differences from the paper, and the reason for each: one sentence each."""
    facts: Mapping[str, str]
    """Versions and hashes of what the numbers come from."""
    commands: Sequence[str]
    """Commands that reproduce it."""

    @property
    def analyses(self) -> list[Analysis]:
        return [found for section in self.sections for found in section.analyses]

    @property
    def left_out(self) -> dict[str, str]:
        """A part that could not be made, with the reason."""
        return {name: why for section in self.sections for name, why in section.left_out.items()}


def write_report(folder: Path, report: Report) -> Path:
    """Write `index.html` last, so that an existing page is complete; return its path."""
    tables, page = folder / "tables", folder / "index.html"
    make_folder(tables)
    for analysis in report.analyses:
        write_page(tables / f"{analysis.name}.csv", analysis.to_csv())
        write_page(tables / f"{analysis.name}.md", analysis.to_markdown())
    write_page(page, html(report))
    return page


def html(report: Report) -> str:
    """Return the page. Everything that comes from data is escaped; figures are our own."""
    contents = [_contents(part.title, {found.name: found.title for found in part.analyses}) for part in report.sections]
    endings = {
        "differences": items(report.differences),
        "facts": _table(("what", "value"), report.facts.items()),
        "reproduce": element("pre", "\n".join(report.commands)),
    }
    return document(
        report.title,
        element("h1", report.title),
        element("p", report.notice, class_="notice"),
        element("nav", *contents, _contents("About this report", _ABOUT), class_="contents"),
        *map(_part, report.sections),
        *(together(element("h2", _ABOUT[name], id=name), ending) for name, ending in endings.items()),
        kind="landscape",
    )


def _contents(title: str, links: Mapping[str, str]) -> Markup:
    """Return one part of the table of contents, with a link to each of its anchors."""
    return element("div", element("b", title), *(element("a", text, href=f"#{name}") for name, text in links.items()))


def _part(section: Section) -> Markup:
    left_out = section.left_out.items()
    missing = together(element("h3", "Left out"), _table(("what", "why"), left_out)) if left_out else None
    return together(element("h2", section.title), *map(_section, section.analyses), missing)


def _section(found: Analysis) -> Markup:
    links = [element("a", kind.upper(), href=f"tables/{found.name}.{kind}") for kind in ("csv", "md")]
    rows = _table(found.columns, found.rows)
    if len(found.rows) > LONG:  # closed on screen; paper cannot be opened, so there it is shown
        rows = element("details", element("summary", f"{len(found.rows):,} rows"), rows)
    return element(
        "section",
        element("h3", found.title, id=found.name),
        element("p", found.says, " ", element("span", links[0], " ", links[1], class_="interval")),
        element("figure", Markup(found.figure.decode())) if found.figure else None,
        rows,
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    return table(columns, [[_cell(value) for value in row] for row in rows])


def _cell(value: Cell) -> PageCell:
    text: object = shown(value)
    if found := INTERVAL.fullmatch(shown(value)):  # it may move to a line of its own, and is never broken
        text = together(found[1], " ", element("span", found[2], class_="interval"))
    return PageCell(text, "number" if isinstance(value, int | float) else "")
