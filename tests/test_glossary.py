"""The glossary keeps its word: few entries, each with one sentence and code names that exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import pytest

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
