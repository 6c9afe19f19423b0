"""The glossary keeps its word: few entries, each with one sentence and code names that exist."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import drsr

PACKAGE = Path(drsr.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "glossary.md"
MOST = 40


class Entry(NamedTuple):
    """A row of the glossary."""

    word: str
    meaning: str
    code: str


ENTRIES = [
    Entry(*(cell.strip() for cell in line.strip("|").split("|")))
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| word ")
]


def test_there_are_few_words_and_none_twice() -> None:
    words = [entry.word.lower() for entry in ENTRIES]
    assert 30 <= len(words) <= MOST
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.word)
def test_an_entry_is_one_sentence(entry: Entry) -> None:
    assert re.fullmatch(r"[A-Z][^.]*\.", entry.meaning), entry.meaning


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.word)
def test_the_code_name_exists(entry: Entry) -> None:
    names = re.findall(r"`([^`]+)`", entry.code)
    assert names, f"{entry.word} names no code"
    for name in names:
        pkgutil.resolve_name(name)  # ImportError or AttributeError where it does not exist


def classes() -> dict[str, list[str]]:
    """Return where every public class is defined, except rows of the catalog, which have the names of things."""
    found = defaultdict(list)
    for top in (PACKAGE, PACKAGE / "flows", PACKAGE / "expectations"):
        for path in sorted(top.rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and "tables" not in path.stem:
                    found[node.name].append(str(path.relative_to(PACKAGE)))
    return found


def with_two_meanings(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the classes that have the name of a word, and of which there are several."""
    words = {entry.word.title().replace(" ", "") for entry in ENTRIES}
    return {name: places for name, places in found.items() if name in words and len(places) > 1}


def test_a_word_names_one_class() -> None:
    assert with_two_meanings(classes()) == {}


def test_a_word_of_two_classes_is_found() -> None:
    assert with_two_meanings({"Step": ["a.py", "b.py"], "Candidate": ["a.py"], "Other": ["a.py", "b.py"]}) == {
        "Step": ["a.py", "b.py"]
    }
