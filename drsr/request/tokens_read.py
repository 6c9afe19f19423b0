"""Tokens that a representation model reads, recorded where it reads them.

    with noting() as read:
        ...                     # whatever runs in here, however deep
    read                        # the token ids of every forward, in order

A language model records them in its embedding; if it is given embeddings instead, it records tokens that no request
has. So a decision can be checked by what was read for it, and not by what its code says it read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from drsr.request.contracts import TokenIds

_open: ContextVar[tuple[list[TokenIds], ...]] = ContextVar("drsr_tokens_read", default=())


@contextmanager
def noting() -> Iterator[list[TokenIds]]:
    """Collect what is read inside, in this thread. Where these are nested, each sees everything."""
    read: list[TokenIds] = []
    token = _open.set((*_open.get(), read))
    try:
        yield read
    finally:
        _open.reset(token)


def is_noting() -> bool:
    """Return whether anybody wants to know."""
    return bool(_open.get())


def note(token_ids: TokenIds) -> None:
    """Say that these were read just now."""
    for read in _open.get():
        read.append(token_ids)


def why_not_the_end_of(view: TokenIds, read: Sequence[TokenIds]) -> str | None:
    """Return what is wrong with what was read for a decision about a view, or None.

    A model reads the view once, from its start or from the point that an earlier decision of the run had reached, to
    its end.
    """
    tokens = np.concatenate([np.empty(0, dtype=np.int32), *read])
    if not len(tokens):
        return "no token was read"
    if len(tokens) > len(view):
        return f"{len(tokens)} tokens were read, the intact view has {len(view)}"
    return None if np.array_equal(tokens, view[len(view) - len(tokens) :]) else "other tokens than the view's were read"
