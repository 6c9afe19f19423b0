"""Rules on the command line for what must be kept, parsed into a `protect` predicate.

3.1             the Block of that name, as `drsr inspect` shows it
3               every Block of Step 3
tool=NAME       every exchange with that tool
text=WORDS      every Block that holds these words, exactly as written
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from drsr.errors import SettingsError
from drsr.request.history import Block, Protect
from drsr.request.json_values import canonical_json
from drsr.request.parts import Call, Part, Reasoning, Result, Text
from drsr.request.request import Request

_Rule = Callable[[Block, Request], bool]


def parse_protection(rules: Sequence[str]) -> Protect | None:
    """Return a predicate that pins what any of the rules names; None if there are no rules."""
    if not rules:
        return None
    parsed = [_parse(rule) for rule in rules]
    return lambda block, request: any(rule(block, request) for rule in parsed)


def with_tool_rules(
    protect: Protect | None, only_tools: Sequence[str] | None, never_tools: Sequence[str] | None
) -> Protect | None:
    """Return the predicate, extended to pin exchanges with tools that match a pattern of `never_tools`, or no pattern
    of `only_tools`. Raise SettingsError if a rule does not name a tool."""
    if only_tools is None and never_tools is None:
        return protect
    only, never = _patterns(only_tools, "only_tools"), _patterns(never_tools, "never_tools")

    def pins(block: Block, request: Request) -> bool:
        if protect is not None and protect(block, request):
            return True
        names = [part.name for part in _parts(block, request) if isinstance(part, Call)]
        if any(fnmatchcase(name, pattern) for name in names for pattern in never or ()):
            return True
        return only is not None and any(not any(fnmatchcase(name, pattern) for pattern in only) for name in names)

    return pins


def _patterns(given: Sequence[str] | None, option: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    patterns = () if isinstance(given, str) else tuple(given)
    if not patterns or not all(isinstance(pattern, str) and pattern.strip() for pattern in patterns):
        raise SettingsError(
            f"{option} names no tool: {given!r}",
            hint=f'a list of names or patterns: {option}=["read_file", "search_*"]',
        )
    return patterns


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
        f"{rule!r} is not a rule for what to protect",
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
