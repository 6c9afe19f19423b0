"""Moves as a script writes them down, by name:

    says, calls, thinks   a Step with tool calls: texts to choose from, `[tool, arguments in order]`, and thoughts
    asks                  a question to the user: texts to choose from
    tells, brief          the final answer, and a short one for users who want no report

In texts and arguments, `{name}` is a fact's value, `{name.field}` or `{name[0]}` a part of it; the argument `*name`
makes one call for each item of a fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drsr.offline.sandbox.agent import Call, Fact, Message, Mind, Move
from drsr.offline.sandbox.workshop.tools import PARAMETERS


def read_moves(table: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Fact[Any]] | None = None) -> dict[str, Move]:
    """Return the moves of a table, with the facts that they name."""
    return {name: _move(name, written, facts or {}) for name, written in table.items()}


def _move(name: str, written: Mapping[str, Any], facts: Mapping[str, Fact[Any]]) -> Move:
    def make(mind: Mind) -> Message:
        if "says" not in written:
            return mind.tell(*written["asks" if "asks" in written else "tells"], brief=written.get("brief", ()))
        calls = [made for spec in written["calls"] for made in _calls(spec, mind)]
        return mind.say(written["says"], *calls, thinks=written.get("thinks", ()))

    return Move(name, make, "asks" in written, facts)


def _calls(spec: Sequence[str], mind: Mind) -> Iterator[Call]:
    """The calls that a tool's name and its arguments, in the order of its parameters, describe."""
    tool, *arguments = spec
    if arguments[0].startswith("*"):
        yield from (Call(tool, {PARAMETERS[tool][0]: value}) for value in mind[arguments[0][1:]])
    else:
        filled = [argument.format_map(mind) for argument in arguments]
        yield Call(tool, dict(zip(PARAMETERS[tool], filled, strict=True)))
