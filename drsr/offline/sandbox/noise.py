"""Moves that lead nowhere: overviews, background reading, wrong guesses. Any plan can be mixed with them.

Their outputs hold no fact that a plan uses, and no plan waits for them: deleting them changes nothing the agent does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Call, Move, call
from drsr.offline.sandbox.words import filler_lines, write_files

_LENGTHS = (7, 7, 7, 8, 8, 8, 9, 9, 10, 12)
"""Steps of a trajectory, each as often as it should occur. A plan that is longer already gets one noise move."""


def write_background(dice: Random, root: Path) -> None:
    """The files that noise moves in a folder look at."""
    lines = filler_lines(dice, 9)
    title = dice.choice(("Read me first", "Overview", "About this folder", "Welcome", "Start here"))
    write_files(
        root,
        {
            "README.md": "\n".join([f"# {title}", *lines[:3]]),
            "NOTES.txt": "\n".join(f"- {line}" for line in lines[3:6]),
            "docs/team.md": "\n".join(lines[6:]),
        },
    )


def background_pages(dice: Random) -> dict[str, str]:
    """The pages that noise moves on a site look at, as `name -> body`."""
    lines = filler_lines(dice, 9)
    return {
        "about": "<h1>About us</h1>" + "".join(f"<p>{line}</p>" for line in lines[:3]),
        "news": "<h1>News</h1>" + "".join(f"<li>{line}</li>" for line in lines[3:6]),
        "imprint": "<h1>Imprint</h1>" + "".join(f"<p>{line}</p>" for line in lines[6:]),
    }


def mix(dice: Random, plan: Sequence[Move], tools: Sequence[str]) -> list[Move]:
    """The plan with one or more noise moves that these tools allow, never behind its last move.

    Most noise comes after the first third: between finding something out and using it.
    """
    possible = [noise for noise in _NOISE if all(made.tool in tools for made in noise.calls)]
    mixed = list(plan)
    count = max(1, dice.choice(_LENGTHS) - len(plan))
    for noise in dice.sample(possible, min(count, len(possible))):
        first = len(mixed) // 3 if dice.random() < 0.8 else 0
        mixed.insert(dice.randrange(first, len(mixed)), noise.move)
    return mixed


class _Noise(NamedTuple):
    move: Move
    calls: tuple[Call, ...]


def _noise(name: str, texts: tuple[str, ...], *calls: Call) -> _Noise:
    return _Noise(Move(f"noise_{name}", lambda mind: mind.say(texts, *calls)), calls)


_NOISE: tuple[_Noise, ...] = (
    _noise(
        "root",
        ("First a look at what is here.", "Let me see how this folder is laid out.", "Listing the top level."),
        call("list_dir", path="."),
    ),
    _noise(
        "ls",
        ("What do we have here?", "An overview of the folder.", "Looking around first."),
        call("run", command="ls"),
    ),
    _noise(
        "readme",
        ("The README may give some background.", "Reading the README, just in case.", "Quick look at the README."),
        call("read_file", path="README.md"),
    ),
    _noise(
        "notes",
        ("There are notes as well; let me skim them.", "Do the notes mention this?", "Checking the notes."),
        call("read_file", path="NOTES.txt"),
    ),
    _noise(
        "team",
        ("Who is responsible here? The team page may say.", "Opening the team page for context."),
        call("read_file", path="docs/team.md"),
    ),
    _noise(
        "contributing",
        ("Maybe there is a guide for contributors.", "Is there a CONTRIBUTING file with house rules?"),
        call("read_file", path="CONTRIBUTING.md"),
    ),
    _noise(
        "docs",
        ("Is there any documentation?", "Checking what is in docs."),
        call("list_dir", path="docs"),
    ),
    _noise(
        "deadline",
        ("Does anybody mention a deadline?", "Let me check the notes for a deadline that I should know of."),
        call("run", command="grep -n -i deadline NOTES.txt README.md"),
    ),
    _noise(
        "sizes",
        ("How much text is there to go through?", "Counting lines to get a feeling for the size."),
        call("run", command="wc -l README.md NOTES.txt docs/team.md"),
    ),
    _noise(
        "make",
        ("Perhaps there is a make target for this.", "Trying the usual make target first."),
        call("run", command="make help"),
    ),
    _noise(
        "both",
        ("Reading the two background files in one go.", "Both of these are short, so I open them together."),
        call("read_file", path="README.md"),
        call("run", command="head -n 2 docs/team.md"),
    ),
    _noise(
        "where",
        ("Making sure that I am in the right place.", "Where am I, and what lies in docs?"),
        call("run", command="pwd"),
        call("run", command="ls docs"),
    ),
    _noise(
        "sorted_team",
        ("The team page, sorted, in case a name helps.", "Sorting the team page makes it easier to skim."),
        call("run", command="sort docs/team.md"),
    ),
    _noise(
        "about",
        ("Who runs this site? Opening the about page.", "The about page may explain how things are organised."),
        call("open_page", path="/about"),
    ),
    _noise(
        "news",
        ("Let me see whether the news mention anything relevant.", "Checking the news for outages or changes."),
        call("open_page", path="/news"),
    ),
    _noise(
        "imprint",
        ("Maybe the imprint has a contact.", "Looking at the imprint for completeness."),
        call("open_page", path="/imprint"),
    ),
    _noise(
        "faq",
        ("There might be a FAQ.", "Trying the FAQ, which many sites have."),
        call("open_page", path="/faq"),
    ),
    _noise(
        "sitemap",
        ("A sitemap would be handy.", "Is there a sitemap?"),
        call("open_page", path="/sitemap"),
    ),
    _noise(
        "search_terms",
        ("Searching the site for its terms.", "Is there anything about terms and conditions?"),
        call("open_page", path="/search?q=terms"),
    ),
    _noise(
        "news_and_about",
        ("Two quick background pages at once.", "I open news and about side by side."),
        call("open_page", path="/news"),
        call("open_page", path="/about"),
    ),
)
