"""The walk keeps its word: each of its three ways fits on a screen, and every function it names exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "walk.md").read_text()
WALKS = {part.splitlines()[0]: part.splitlines()[1:] for part in TEXT.split("\n## ")[1:]}
NAMES = sorted(set(re.findall(r"`(drsr(?:\.\w+)+)`", TEXT)))
SCREEN = 40
"""Lines of a page that are seen at once."""


def test_there_are_three_walks() -> None:
    run, request, night = WALKS
    assert (run, request, night) == (
        "One recorded run, from file to released policy",
        "One request through the proxy",
        "One night",
    )


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_fits_on_a_screen_and_names_functions(walk: str) -> None:
    assert len(WALKS[walk]) <= SCREEN
    assert len(re.findall(r"`drsr\.", "\n".join(WALKS[walk]))) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name: str) -> None:
    pkgutil.resolve_name(name)  # ImportError or AttributeError where it does not exist
