"""Pages that people open in a browser: one frame, one style sheet, every text escaped, nothing loaded from elsewhere.

    document("Audit", element("h1", "Audit of a < b"), table(("what", "how many"), [("labels", 12)]))

A page is complete in itself: its security policy lets a browser load nothing, and it runs no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from drsr.files import write_atomically

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""The rule for browsers: load nothing but the page itself."""


class Markup(str):
    """HTML that is safe in a page. Anything else is text, and is escaped where it is put into one."""


class Cell(NamedTuple):
    """A cell of a table with its own style."""

    content: object
    kind: str
    """Its class in the style sheet; `number` is aligned right."""


def element(tag: str, *content: object, **attributes: str) -> Markup:
    """Return an element with its content; `class_` is the attribute class, `aria_label` is aria-label."""
    named = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"' for name, text in attributes.items())
    return Markup(f"<{tag}{named}>{together(*content)}</{tag}>")


def together(*content: object) -> Markup:
    """Join all of it; text is escaped, None is left out."""
    return Markup(
        "".join(part if isinstance(part, Markup) else escape(str(part)) for part in content if part is not None)
    )


def items(texts: Iterable[object], **attributes: str) -> Markup:
    """Return a list."""
    return element("ul", *(element("li", text) for text in texts), **attributes)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table. Numbers are aligned right, and so is the head of a column with numbers only."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [bool(cells) and all(row[place].kind == "number" for row in cells) for place in range(len(head))]
    top = [
        element("th", name, class_="number") if right else element("th", name)
        for name, right in zip(head, numeric, strict=True)
    ]
    body = [element("tr", *(_element(cell) for cell in row)) for row in cells]
    thead = element("thead", element("tr", *top)) if head else None
    return element("div", element("table", thead, element("tbody", *body)), class_="wide")


def verdict(passed: bool, good: str = "passed", bad: str = "failed") -> Cell:
    """Return a cell that says in a word, not by colour alone, how something came out."""
    return Cell(good, "verdict passed") if passed else Cell(bad, "verdict failed")


def document(title: str, *content: object, kind: str = "") -> str:
    """Return the whole page. `kind` is a class of its content: a page of wide tables is printed as `landscape`."""
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Markup(style())),
    )
    body = [element("div", *content, class_=kind)] if kind else content
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n"


@cache
def style() -> str:
    """Return the style sheet of every page."""
    return files("drsr").joinpath("pages.css").read_text(encoding="utf-8")


def write_page(path: Path, text: str) -> None:
    """Write a file; a reader sees the old one or the new one."""
    write_atomically(path, text.encode())


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(value, "number" if isinstance(value, int | float) and not isinstance(value, bool) else "")


def _element(cell: Cell) -> Markup:
    return element("td", cell.content, class_=cell.kind) if cell.kind else element("td", cell.content)
