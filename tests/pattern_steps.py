"""Count the steps that a backtracking matcher takes, so that a pattern's growth is judged without a clock.

An interpreter of Python's own parse of a pattern: one step for every character that is compared. It does what `re`
does, without the short cuts that `re` takes for literal beginnings, so that it never counts fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MOST = 50_000
"""Steps after which nothing more needs to be known."""
Goes = Callable[[int], int | None]
"""Whether the rest of a pattern matches from a place on: the end of the match, or None."""


class TooManySteps(Exception):
    """More than MOST."""


class Steps:
    """One pattern on one text."""

    def __init__(self, pattern: str, flags: int, text: str) -> None:
        self._text = text.lower() if flags & re.IGNORECASE else text
        self._parsed = _parser.parse(pattern, flags)
        self._flags = self._parsed.state.flags
        self._groups: dict[int, tuple[int, int]] = {}
        self.count = 0

    def match(self, start: int, *, full: bool = False) -> int | None:
        """Return where a match from a place on ends; None where there is none."""
        wanted = len(self._text)
        return self._sequence(self._parsed.data, 0, start, lambda at: at if not full or at == wanted else None)

    def find_all(self) -> int:
        """Return how many matches there are, one behind the other."""
        at = found = 0
        while at <= len(self._text):
            end = self.match(at)
            found += end is not None
            at = at + 1 if end is None or end == at else end
        return found

    def _sequence(self, items: Sequence[Any], index: int, at: int, then: Goes) -> int | None:
        if index == len(items):
            return then(at)
        return self._item(items[index], at, lambda next_at: self._sequence(items, index + 1, next_at, then))

    def _item(self, item: Any, at: int, then: Goes) -> int | None:
        kind, value = item
        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return then(at + 1) if self._one(item, at) else None
        if kind is sre.SUBPATTERN:
            group, _, _, inner = value
            return self._sequence(inner.data, 0, at, lambda end: self._closed(group, at, end, then))
        if kind is sre.BRANCH:
            ends = (self._sequence(branch.data, 0, at, then) for branch in value[1])
            return next((end for end in ends if end is not None), None)
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(kind is sre.MAX_REPEAT, value, at, then)
        if kind is sre.AT:
            return then(at) if self._at(value, at) else None
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inner = value
            start = at if direction > 0 else at - _parser.SubPattern.getwidth(inner)[0]
            found = start >= 0 and self._sequence(inner.data, 0, start, lambda end: end) is not None
            return then(at) if found is (kind is sre.ASSERT) else None
        if kind is sre.GROUPREF:
            said = self._text[slice(*self._groups.get(value, (0, 0)))]
            self.count += len(said)
            return then(at + len(said)) if self._text.startswith(said, at) else None
        raise NotImplementedError(f"{kind} is not counted yet")

    def _closed(self, group: int | None, start: int, end: int, then: Goes) -> int | None:
        if group is not None:
            self._groups[group] = start, end
        return then(end)

    def _repeat(self, greedy: bool, value: Any, at: int, then: Goes) -> int | None:
        least, most, inner = value
        if len(inner) == 1 and inner[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._repeat_one(greedy, least, most, inner[0], at, then)
        return self._repeat_many(greedy, least, most, inner.data, at, then)

    def _repeat_one(self, greedy: bool, least: int, most: int, item: Any, at: int, then: Goes) -> int | None:
        end = at
        while end - at < (most if greedy else least) and self._one(item, end):
            end += 1
        if end - at < least:
            return None
        while greedy and end - at >= least:
            if (found := then(end)) is not None:
                return found
            end -= 1
        while not greedy:
            if (found := then(end)) is not None:
                return found
            if end - at >= most or not self._one(item, end):
                return None
            end += 1
        return None

    def _repeat_many(self, greedy: bool, least: int, most: int, inner: list[Any], at: int, then: Goes) -> int | None:
        def again(next_at: int) -> int | None:
            if next_at == at and least <= 0:
                return None  # a repetition of nothing
            return self._repeat_many(greedy, max(least - 1, 0), most - 1, inner, next_at, then)

        if least > 0:
            return self._sequence(inner, 0, at, again)
        for once_more in (True, False) if greedy else (False, True):
            found = then(at) if not once_more else self._sequence(inner, 0, at, again) if most > 0 else None
            if found is not None:
                return found
        return None

    def _one(self, item: Any, at: int) -> bool:
        self.count += 1
        if self.count > MOST:
            raise TooManySteps
        if at >= len(self._text):
            return False
        kind, value = item
        letter = self._text[at]
        if kind is sre.ANY:
            return bool(self._flags & re.DOTALL) or letter != "\n"
        if kind is sre.IN:
            return self._is_in(value, letter)
        return (letter == self._folded(value)) is (kind is sre.LITERAL)

    def _folded(self, code: int) -> str:
        return chr(code).lower() if self._flags & re.IGNORECASE else chr(code)

    def _is_in(self, members: Sequence[Any], letter: str) -> bool:
        wanted = members[0][0] is not sre.NEGATE
        for kind, value in members if wanted else members[1:]:
            if (
                (kind is sre.LITERAL and letter == self._folded(value))
                or (kind is sre.RANGE and any(value[0] <= ord(one) <= value[1] for one in (letter, letter.upper())))
                or (kind is sre.CATEGORY and _CATEGORIES[value].fullmatch(letter) is not None)
            ):
                return wanted
        return not wanted

    def _at(self, place: Any, at: int) -> bool:
        text, multiline = self._text, bool(self._flags & re.MULTILINE)
        if place in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return at == 0 or (multiline and place is sre.AT_BEGINNING and text[at - 1] == "\n")
        if place is sre.AT_END_STRING:
            return at == len(text)
        if place is sre.AT_END:
            return at == len(text) or (text[at] == "\n" and (multiline or at == len(text) - 1))
        sides = (at > 0 and _is_word(text[at - 1])), (at < len(text) and _is_word(text[at]))
        return (sides[0] != sides[1]) is (place is sre.AT_BOUNDARY)


_CATEGORIES = {
    sre.CATEGORY_DIGIT: re.compile(r"\d"),
    sre.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    sre.CATEGORY_SPACE: re.compile(r"\s"),
    sre.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    sre.CATEGORY_WORD: re.compile(r"\w"),
    sre.CATEGORY_NOT_WORD: re.compile(r"\W"),
}


def _is_word(letter: str) -> bool:
    return letter == "_" or letter.isalnum()
