"""Names and numbers that tie one Step to another: ids, paths, symbols, amounts."""

from __future__ import annotations

import re

_CANDIDATE = re.compile(r"[\w#$@][\w./:#@-]*\w|\w")
_SHORTEST = 3


def identifiers(text: str) -> frozenset[str]:
    """Return every word that looks like an identifier: with a digit, an underscore, a slash or an inner capital, and at
    least three characters long."""
    return frozenset(word for word in _CANDIDATE.findall(text) if len(word) >= _SHORTEST and _is_made_up(word))


def _is_made_up(word: str) -> bool:
    return (
        any(character.isdigit() for character in word)
        or any(character in "_/@#" for character in word)
        or ("." in word[1:-1] and not word.endswith("."))
        or any(before.islower() and after.isupper() for before, after in zip(word, word[1:], strict=False))
    )
