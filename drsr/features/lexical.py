"""The words of a request, every part read once.

A word is a run of letters, digits and underscores, in lower case. Tool definitions are a form to be filled in, not
history, and are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from drsr.request.parts import Call, Part, PartRef, Reasoning, Result, Text
from drsr.request.request import Request

_WORD = re.compile(r"\w+")

_MIN_IDENTIFIER = 3
"""Shorter ones (`x1`, a digit) are shared by chance."""


class Passage(NamedTuple):
    """One part of a request, or several read together."""

    text: str
    words: tuple[str, ...]
    """In order, with repetitions."""
    distinct: frozenset[str]


def read_passages(request: Request) -> dict[PartRef, Passage]:
    """Every part of a request in order; the parts of Anthropic's `system` field stand under message -1."""
    messages = list(enumerate(request.messages))
    if request.system is not None:
        messages.insert(0, (-1, request.system))
    return {
        PartRef(index, number): _read(part) for index, message in messages for number, part in enumerate(message.parts)
    }


def together(passages: Iterable[Passage]) -> Passage:
    """Several passages as one."""
    found = list(passages)
    return Passage(
        "\n".join(passage.text for passage in found),
        tuple(word for passage in found for word in passage.words),
        frozenset().union(*(passage.distinct for passage in found)),
    )


def identifiers(words: Iterable[str]) -> frozenset[str]:
    """The words that name one thing (an order, a file, a variable): those with a digit or an underscore."""
    return frozenset(word for word in words if len(word) >= _MIN_IDENTIFIER and not word.isalpha())


def share(part: Iterable[str], whole: frozenset[str]) -> float:
    """How much of `whole` is also in `part`; of nothing, nothing."""
    return quotient(len(whole.intersection(part)), len(whole))


def quotient(part: int, whole: int) -> float:
    """0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def jaccard(one: frozenset[str], other: frozenset[str], both: int) -> float:
    """Words in both, of which there are `both`, by words in either."""
    return quotient(both, len(one) + len(other) - both)


def _read(part: Part) -> Passage:
    text = part_text(part)
    words = tuple(_WORD.findall(text.lower()))
    return Passage(text, words, frozenset(words))


def part_text(part: Part) -> str:
    """What a part says. A call says its name and the keys and values of its arguments, one per line."""
    match part:
        case Text(text=text) | Reasoning(text=text) | Result(text=text):
            return text
        case Call(name=name, arguments=arguments):
            return "\n".join([name, *_leaves(arguments)])
        case _:
            return ""


def _leaves(value: Any) -> list[str]:
    """Keys and values in order. Not the JSON text: in that, `\\n` before a word would become part of the word."""
    leaves: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for key, inner in reversed(item.items()):
                waiting.extend((inner, key))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            leaves.append(item if isinstance(item, str) else repr(item))
    return leaves
