"""The representation view: the part of a request that the backbone reads (paper, appendix B.1).

The whole request if it fits under the cap, else its longest suffix of whole messages that still holds Recent2. Savings,
caps and validity are never measured on the view, always on the full request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from drsr.request.contracts import TokenIds
from drsr.request.history import History
from drsr.request.parts import Result
from drsr.request.rendering import Rendering

CONTEXT_CAP, TARGET_CAP = 55_296, 3_072
"""The paper's caps, in tokens."""


class Caps(NamedTuple):
    """The largest context and the largest recorded output, in tokens."""

    context: int
    target: int


def caps_for(window: int) -> Caps:
    """Return the paper's caps or, for a smaller window, a quarter of it for the output and the rest for the context."""
    target = min(TARGET_CAP, window // 4)
    return Caps(min(CONTEXT_CAP, window - target), target)


class View(NamedTuple):
    """A suffix of a request."""

    first_message: int
    """Index of its first message; 0 with `start` 0 means the whole request."""
    start: int
    """Position of its first token in the full rendering."""
    lead: int
    """Number of tokens at the beginning of the full rendering (a beginning-of-sequence token) that stay in front of the
    view."""

    def token_ids(self, full: TokenIds) -> TokenIds:
        """Return the tokens that the backbone reads, from those of the full request. Because all candidates are inside
        the view, the same cut holds for the tokens of every rewrite."""
        if self.start <= self.lead:
            return full
        return np.concatenate([full[: self.lead], full[self.start :]])


class Start(NamedTuple):
    """A possible start of a view."""

    message: int
    token: int


def possible_starts(history: History, rendering: Rendering) -> list[Start]:
    """Return every message but those with results: what they answer would be cut off. In order."""
    return [
        Start(index, rendering.message_spans[index].start)
        for index, message in enumerate(history.request.messages)
        if not any(isinstance(part, Result) for part in message.parts)
    ]


def find_view(history: History, rendering: Rendering, lead: int, context_cap: int) -> View | None:
    """Return the longest view under the cap, or None if not even Recent2 fits."""
    recent = history.recent
    latest = recent[0].message if recent else len(history.request.messages)
    return longest_view(possible_starts(history, rendering), len(rendering), latest, lead, context_cap)


def longest_view(starts: Sequence[Start], length: int, latest: int, lead: int, context_cap: int) -> View | None:
    """Return the first start that leaves at most `context_cap` of `length` tokens and does not come after message
    `latest`."""
    if length <= context_cap:
        return View(0, 0, lead)
    first = bisect_left(starts, lead + length - context_cap, key=lambda start: start.token)
    if first == len(starts) or starts[first].message > latest:
        return None
    return View(starts[first].message, starts[first].token, lead)
