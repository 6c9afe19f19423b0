"""Read a family's script: what the user asks, what the agent says and does, and what must hold in the end.

A script is a TOML file next to the family's module, of the same name:

    role, tools, prompts   the system prompt's beginning, the tools, and the wordings of the task
    plan                   pieces in order: moves; a list of which one is chosen; a side track that chance decides on
    [check]                log: the last line of the log; form: fields of the one form that was sent;
                           answer, brief: entries of the truth that the answer names, in full and in short
    [task]                 facts that stand in the user's task: name = pattern
    [facts]                facts that outputs show: name = [moves that show it, patterns]; those without a pattern
                           are found by a function of the module
    [moves.NAME]           see `moves.py`

In patterns, `{name}` is a fact's value, `{name.field}` or `{name[0]}` a part of it; `{PRODUCTS}` and `{COLORS}` match
any word of those lists.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from drsr.offline.sandbox.agent import Fact, Mind, said
from drsr.offline.sandbox.family import Family, Outcome, Requirement, Scenario, SideTrack
from drsr.offline.sandbox.moves import read_moves
from drsr.offline.sandbox.words import COLORS, PRODUCTS


def read_family(
    module: str,
    prepare: Callable[[Random, Path], Scenario],
    done: Callable[[Outcome], bool] = lambda outcome: True,
    **finders: Callable[[Mind], Any],
) -> Family:
    """Read the script next to a family's module.

    `done` is what the check asks beyond the script; `finders` find facts that no pattern does, by their names.
    """
    path = Path(module).with_suffix(".toml")
    script = tomllib.loads(path.read_text(encoding="utf-8"))
    facts = _facts(script, finders)
    return Family(
        domain=path.parent.name,
        name=path.stem,
        role=script["role"],
        tools=tuple(script["tools"]),
        prompts=tuple(script["prompts"]),
        pieces=tuple(SideTrack(**piece) if isinstance(piece, dict) else piece for piece in script["plan"]),
        moves=read_moves(script["moves"], facts),
        requirement=Requirement(**script["check"]),
        write=prepare,
        done=done,
    )


def _facts(script: Mapping[str, Any], finders: Mapping[str, Callable[[Mind], Any]]) -> dict[str, Fact[Any]]:
    facts: dict[str, Fact[Any]] = {}
    for name, pattern in script.get("task", {}).items():
        facts[name] = Fact("", partial(Mind.prompt, pattern=_with_words(pattern)))
    for name, (shown_by, *patterns) in script["facts"].items():
        facts[name] = said(shown_by, *patterns) if patterns else Fact(shown_by, finders[name])
    return facts


def _with_words(pattern: str) -> str:
    return pattern.replace("{PRODUCTS}", "|".join(PRODUCTS)).replace("{COLORS}", "|".join(COLORS))
