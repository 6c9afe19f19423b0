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

_LENGTHS = (*[7] * 40, 8, 8)
"""Steps of a trajectory, each as often as it should occur. A plan that is as long already gets no noise."""


def write_background(dice: Random, root: Path) -> None:
    """The files that noise moves in a folder look at."""
    lines = filler_lines(dice, 4)
    title = dice.choice(("Read me first", "Overview", "About this folder", "Welcome", "Start here"))
    write_files(
        root,
        {
            "README.md": f"# {title}\n{lines[0]}",
            "NOTES.txt": f"- {lines[1]}",
            "team.txt": "\n".join(lines[2:]),
        },
    )


def background_pages(dice: Random) -> dict[str, str]:
    """The pages that noise moves on a site look at, as `name -> body`."""
    lines = filler_lines(dice, 3)
    return {
        "about": f"<h1>About us</h1><p>{lines[0]}</p>",
        "news": f"<h1>News</h1><li>{lines[1]}</li>",
        "imprint": f"<h1>Imprint</h1><p>{lines[2]}</p>",
    }


def mix(dice: Random, plan: Sequence[Move], tools: Sequence[str]) -> list[Move]:
    """The plan with noise moves that these tools allow, up to a length that is mostly seven.

    Noise comes between finding something out and using it: never first, and never among the last three moves.
    """
    possible = [noise for noise in _NOISE if all(made.tool in tools for made in noise.calls)]
    mixed = list(plan)
    count = max(0, dice.choice(_LENGTHS) - len(plan))
    for noise in dice.sample(possible, min(count, len(possible))):
        mixed.insert(dice.randrange(1, len(mixed) - 2), noise.move)
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
        call("list", path="."),
    ),
    _noise(
        "ls",
        ("What do we have here?", "An overview of the folder.", "Looking around first."),
        call("run", command="ls"),
    ),
    _noise(
        "readme",
        ("The README may give some background.", "Reading the README, just in case.", "Quick look at the README."),
        call("read", path="README.md"),
    ),
    _noise(
        "notes",
        ("There are notes as well; let me skim them.", "Do the notes mention this?", "Checking the notes."),
        call("read", path="NOTES.txt"),
    ),
    _noise(
        "team",
        ("Who is responsible here? The team page may say.", "Opening the team page for context."),
        call("read", path="team.txt"),
    ),
    _noise(
        "contributing",
        ("Maybe there is a guide for contributors.", "Is there a CONTRIBUTING file with house rules?"),
        call("read", path="CONTRIBUTING.md"),
    ),
    _noise(
        "deadline",
        ("Does anybody mention a deadline?", "Let me check the notes for a deadline that I should know of."),
        call("run", command="grep -i deadline NOTES.txt"),
    ),
    _noise(
        "sizes",
        ("How much text is there to go through?", "Counting lines to get a feeling for the size."),
        call("run", command="wc -l NOTES.txt team.txt"),
    ),
    _noise(
        "make",
        ("Perhaps there is a make target for this.", "Trying the usual make target first."),
        call("run", command="make help"),
    ),
    _noise(
        "both",
        ("Reading the two background files in one go.", "Both of these are short, so I open them together."),
        call("read", path="README.md"),
        call("run", command="head -n 1 team.txt"),
    ),
    _noise(
        "where",
        ("Making sure that I am in the right place.", "Where am I?"),
        call("run", command="pwd"),
    ),
    _noise(
        "sorted_team",
        ("The team page, sorted, in case a name helps.", "Sorting the team page makes it easier to skim."),
        call("run", command="sort team.txt"),
    ),
    _noise(
        "about",
        ("Who runs this site? Opening the about page.", "The about page may explain how things are organised."),
        call("open", path="/about"),
    ),
    _noise(
        "news",
        ("Let me see whether the news mention anything relevant.", "Checking the news for outages or changes."),
        call("open", path="/news"),
    ),
    _noise(
        "imprint",
        ("Maybe the imprint has a contact.", "Looking at the imprint for completeness."),
        call("open", path="/imprint"),
    ),
    _noise(
        "faq",
        ("There might be a FAQ.", "Trying the FAQ, which many sites have."),
        call("open", path="/faq"),
    ),
    _noise(
        "sitemap",
        ("A sitemap would be handy.", "Is there a sitemap?"),
        call("open", path="/sitemap"),
    ),
    _noise(
        "search_terms",
        ("Searching the site for its terms.", "Is there anything about terms and conditions?"),
        call("open", path="/search?q=terms"),
    ),
    _noise(
        "news_and_about",
        ("Two quick background pages at once.", "I open news and about side by side."),
        call("open", path="/news"),
        call("open", path="/about"),
    ),
)
