"""Rules on the command line for what must be kept, parsed into a `protect` predicate.

3.1             the Block of that name, as `drsr inspect` shows it
3               every Block of Step 3
tool=NAME       every exchange with that tool
text=WORDS      every Block that holds these words, exactly as written
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from drsr.errors import SettingsError
from drsr.request.history import Block, Protect
from drsr.request.json_values import canonical_json
from drsr.request.parts import Call, Part, Reasoning, Result, Text
from drsr.request.request import Request

_Rule = Callable[[Block, Request], bool]


def parse_protection(rules: Sequence[str]) -> Protect | None:
    """A predicate that pins what any of the rules says; None without rules."""
    if not rules:
        return None
    parsed = [_parse(rule) for rule in rules]
    return lambda block, request: any(rule(block, request) for rule in parsed)


def _parse(rule: str) -> _Rule:
    kind, separator, value = rule.partition("=")
    if separator and value and kind == "tool":
        return lambda block, request: any(
            isinstance(part, Call) and part.name == value for part in _parts(block, request)
        )
    if separator and value and kind == "text":
        return lambda block, request: any(value in _text(part) for part in _parts(block, request))
    if re.fullmatch(r"\d+", rule):
        return lambda block, request: block.step == int(rule)
    if re.fullmatch(r"\d+\.\d+", rule):
        return lambda block, request: block.name == rule
    raise SettingsError(
        f"{rule!r} is no rule for what to protect",
        hint="a Block (3.1), a Step (3), tool=NAME or text=WORDS",
    )


def _parts(block: Block, request: Request) -> list[Part]:
    return [request.messages[ref.message].parts[ref.part] for ref in block.parts]


def _text(part: Part) -> str:
    match part:
        case Text(text=text) | Reasoning(text=text) | Result(text=text):
            return text
        case Call(name=name, arguments=arguments):
            return f"{name} {arguments if isinstance(arguments, str) else canonical_json(arguments)}"
        case _:
            return ""
