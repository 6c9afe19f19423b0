"""Moves that lead nowhere: overviews, background reading, wrong guesses. Any plan can be mixed with them.

Their outputs hold no fact that a plan uses, and no plan waits for them: deleting them changes nothing the agent does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Move
from drsr.offline.sandbox.moves import read_moves
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
    """Return the pages that noise moves on a site look at, as `name -> body`."""
    lines = filler_lines(dice, 3)
    return {
        "about": f"<h1>About us</h1><p>{lines[0]}</p>",
        "news": f"<h1>News</h1><li>{lines[1]}</li>",
        "imprint": f"<h1>Imprint</h1><p>{lines[2]}</p>",
    }


def mix(dice: Random, plan: Sequence[Move], tools: Sequence[str]) -> list[Move]:
    """Return the plan with noise moves that these tools allow, up to a length that is mostly seven.

    Noise comes between finding something out and using it: never first, and never among the last three moves.
    """
    possible = [move for move, needed in _NOISE if needed <= set(tools)]
    mixed = list(plan)
    count = max(0, dice.choice(_LENGTHS) - len(plan))
    for noise in dice.sample(possible, min(count, len(possible))):
        mixed.insert(dice.randrange(1, len(mixed) - 2), noise)
    return mixed


def _read_noise() -> list[tuple[Move, frozenset[str]]]:
    """The noise moves of noise.toml, each with the tools that it needs."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    moves = read_moves({f"noise_{name}": written for name, written in table.items()})
    return [
        (move, frozenset(tool for tool, *_ in written["calls"]))
        for move, written in zip(moves.values(), table.values(), strict=True)
    ]


_NOISE = _read_noise()
