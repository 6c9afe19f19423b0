"""A recorded run copied in disguise: other numbers, another case, words replaced, half of another run appended."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

_NOT_SAID = frozenset({"role", "type", "id", "tool_call_id", "name"})
Change = Callable[[str], str]


def one_word_in_eight(text: str) -> str:
    draw = random.Random(text)
    return re.sub(r"\w+", lambda word: _other_word(draw) if draw.random() < 1 / 8 else word[0], text)


def other_numbers(text: str) -> str:
    draw = random.Random(text)
    return re.sub(r"\d", lambda _: str(draw.randrange(10)), text)


IN_PLACE: dict[str, Change] = {
    "other numbers": other_numbers,
    "another case": lambda text: re.sub(r"[a-z]", lambda letter: letter[0].upper(), text),
    "one word in eight": one_word_in_eight,
}
APPENDED = "half of another run"
DISGUISES = (*IN_PLACE, APPENDED)


def disguised(messages: list[dict[str, Any]], how: str, other: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a run's messages in one of the disguises; `other` is the run that half is taken of."""
    if how == APPENDED:
        half = len(other) // 2
        start = next(place for place in range(half, len(other)) if other[place]["role"] == "assistant")
        return [*messages, {"role": "user", "content": "Go on."}, *other[start:]]
    return [_changed(message, IN_PLACE[how]) for message in messages]


def _changed(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if isinstance(value, dict):
        return {name: item if name in _NOT_SAID else _changed(item, change) for name, item in value.items()}
    return value


def _other_word(draw: random.Random) -> str:
    return "".join(draw.choices("abcdefghijklmnop", k=7))
