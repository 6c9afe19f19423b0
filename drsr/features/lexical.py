"""The words of a request, every part read once.

A word is a run of letters, digits and underscores, in lower case. Tool definitions are a form to be filled in, not
history, and are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from drsr.request.parts import Call, Part, PartRef, Reasoning, Result, Text
from drsr.request.request import Request

_WORD = re.compile(r"\w+")

_ASCII_WORDS = bytes(ord(chr(code).lower() if _WORD.match(chr(code)) else " ") for code in range(128)) + bytes(128)
"""For each ASCII character its lower case; a space for those that no word has."""
_MIN_IDENTIFIER = 3
"""Shorter ones (`x1`, a digit) are shared by chance."""


@dataclass(frozen=True)
class Passage:
    """One part of a request, or several read together."""

    text: str

    @cached_property
    def words(self) -> list[str]:
        """Words in order, with repetitions. Computed on demand, because most parts are never asked for them."""
        return words_of(self.text)

    @cached_property
    def counts(self) -> Counter[str]:
        """Return how often the part contains each word."""
        return Counter(self.words)

    @cached_property
    def distinct(self) -> frozenset[str]:
        return frozenset(self.words)


def read_passages(request: Request, *, sort_keys: bool = False) -> dict[PartRef, Passage]:
    """Return every part of a request in order; the parts of Anthropic's `system` field have message index -1.

    With `sort_keys` the arguments of a call are read in the order of their keys, as they are rendered, and not in the
    order received: for callers that look at the order of words.
    """
    messages = list(enumerate(request.messages))
    if request.system is not None:
        messages.insert(0, (-1, request.system))
    return {
        PartRef(index, number): _read(part, sort_keys)
        for index, message in messages
        for number, part in enumerate(message.parts)
    }


def together(passages: Iterable[Passage]) -> Passage:
    """Return several passages as one."""
    return Passage("\n".join(passage.text for passage in passages))


def identifiers(words: Iterable[str]) -> frozenset[str]:
    """Return the words that name one thing (an order, a file, a variable): those with a digit or an underscore."""
    return frozenset(word for word in words if len(word) >= _MIN_IDENTIFIER and not word.isalpha())


def share(part: Iterable[str], whole: frozenset[str]) -> float:
    """Return the share of `whole` that is also in `part`; 0 if `whole` is empty."""
    return quotient(len(whole.intersection(part)), len(whole))


def quotient(part: int, whole: int) -> float:
    """Return the quotient; 0 if there is nothing to divide by."""
    return part / whole if whole else 0.0


def _read(part: Part, sort_keys: bool) -> Passage:
    return Passage(part_text(part, sort_keys=sort_keys))


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with repetitions."""
    if text.isascii():  # the same by splitting, which takes a third of the time
        return _ascii_words(text)
    words: list[str] = []
    for line in text.lower().split("\n"):  # which ends every word
        words += _ascii_words(line) if line.isascii() else _WORD.findall(line)
    return words


def _ascii_words(text: str) -> list[str]:
    return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()


def part_text(part: Part, *, sort_keys: bool = False) -> str:
    """Return the text of a part. A call's text is its name and the keys and values of its arguments, one per line."""
    match part:
        case Text(text=text) | Reasoning(text=text) | Result(text=text):
            return text
        case Call(name=name, arguments=arguments):
            return "\n".join([name, *_leaves(arguments, sort_keys)])
        case _:
            return ""


def _leaves(value: Any, sort_keys: bool) -> list[str]:
    """Return the keys and values in order. Not the JSON text: in it, `\n` before a word would become part of the
    word."""
    leaves: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            items = sorted(item.items()) if sort_keys else item.items()
            for key, inner in reversed(items):
                waiting.extend((inner, key))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            leaves.append(item if isinstance(item, str) else repr(item))
    return leaves
