"""Violations that a removal would add, found by looking only at the Steps that it touches.

A decision asks about some twenty removals from one request, and each touches at most a few of its messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from drsr.request.history import Removal, rewrite
from drsr.request.parts import Message
from drsr.request.protocol import Violation, is_answered, is_plain, new_violations
from drsr.request.request import Request


class Removals:
    """Judges removals from one request."""

    def __init__(self, request: Request, found: Sequence[Violation]) -> None:
        """`found` are the violations of the request itself."""
        self._request = request
        self._found = found
        self._is_plain = is_plain(request)
        self._assistants = [index for index, message in enumerate(request.messages) if message.role == "assistant"]
        self._shortened: dict[tuple[int, frozenset[int]], Message] = {}

    def new_violations(self, removed: Removal) -> tuple[Violation, ...]:
        """Return the violations of the rewrite that the request does not have: what `protocol.new_violations` gives for
        it."""
        if self._adds_nothing(removed):
            return ()
        rewritten = rewrite(self._request, removed)
        return tuple(new_violations(rewritten.request, rewritten.kept, self._found))

    def _adds_nothing(self, removed: Removal) -> bool:
        """Return True if the removal certainly adds no violation. In a plain request every result directly follows its
        call's message, so what is valid between two assistant messages does not depend on the rest of the request."""
        if not self._is_plain:
            return False
        touched = {bisect_right(self._assistants, index) - 1 for index in (*removed.vanished, *removed.parts)}
        last = len(self._assistants) - 1  # its calls may be open
        return all(0 <= number < last and self._is_whole(number, removed) for number in touched)

    def _is_whole(self, number: int, removed: Removal) -> bool:
        """Return whether what is left from this assistant message to the next is valid, with every call answered."""
        first, end = self._assistants[number : number + 2]
        if first == 0:
            return False  # another message may come first
        left = [self._left(index, removed) for index in range(first, end) if index not in removed.vanished]
        if first in removed.vanished:  # what is left follows an earlier Step
            return not any(message.role == "tool" or message.results or message.calls for message in left)
        return is_answered(left)

    def _left(self, index: int, removed: Removal) -> Message:
        parts = removed.parts.get(index)
        if parts is None:
            return self._request.messages[index]
        key = index, frozenset(parts)
        if key not in self._shortened:
            self._shortened[key] = self._request.without_parts(index, parts)
        return self._shortened[key]
