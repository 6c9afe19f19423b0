"""The frame of every page: text is escaped, tables are aligned, nothing is loaded, files are whole."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.pages import POLICY, Cell, Markup, document, element, items, style, table, together, verdict, write_page


@given(st.text())
def test_a_text_comes_back_and_is_never_markup(text: str) -> None:
    made = document(text, element("p", text, title=text), items([text]), table([text], [[text]]))
    inside = made.partition("</style>")[2]
    tags = re.findall(r"<(/?\w+)", inside)
    assert set(tags) <= {"/head", "body", "p", "/p", "ul", "li", "/li", "/ul", "div", "/div", "/body", "/html"} | {
        f"{slash}{name}" for slash in ("", "/") for name in ("table", "thead", "tbody", "tr", "th", "td")
    }
    (attribute,) = re.findall(r'<p title="([^"]*)">', inside)
    assert html.unescape(attribute) == text


def test_markup_is_taken_as_it_is_and_none_is_nothing() -> None:
    assert together("a < b", Markup("<br>"), None, 3) == "a &lt; b<br>3"
    assert element("a", "x", href="#y", aria_current="page") == '<a href="#y" aria-current="page">x</a>'


def test_numbers_stand_on_the_right_and_verdicts_are_words() -> None:
    made = table(("name", "count", "mixed"), [("a", 1, 2), ("b", Cell("1,000", "number"), "x")])
    assert made.count('<th class="number">count</th>') == 1
    assert made.count('class="number"') == 4
    assert "<th>mixed</th>" in made
    assert "<thead>" not in table((), [("a", True)])
    assert verdict(True) == ("passed", "verdict passed")
    assert verdict(False, "same", "DIFFERENT") == ("DIFFERENT", "verdict failed")


def test_a_page_is_complete_in_itself() -> None:
    made = document("Title", element("p", "text"), kind="landscape")
    assert made.startswith("<!doctype html>\n<html")
    assert POLICY.startswith("default-src 'none';")
    assert POLICY in made
    assert '<div class="landscape">' in made
    assert style() in made
    for remote in ("url(", "@import", "@font-face", "http:", "https:", "<"):
        assert remote not in style()
    for scheme in ("prefers-color-scheme: dark", "@media print"):
        assert scheme in style()


def test_every_colour_has_a_value_in_light_dark_and_print() -> None:
    used = set(re.findall(r"var\((--[\w-]+)\)", style())) | {"--plot-a", "--plot-b", "--plot-c"}
    palettes = re.findall(r":root \{(.*?)\}", style(), re.DOTALL)
    assert len(palettes) == 3
    for palette in palettes:
        assert used <= set(re.findall(r"(--[\w-]+):", palette))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", "one")
    write_page(tmp_path / "page.html", "two")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_page(tmp_path / "folder", "three")
    assert {path.name: path.is_file() and path.read_text() for path in tmp_path.iterdir()} == {
        "page.html": "two",
        "folder": False,
    }
