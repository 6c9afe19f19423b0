"""Admission of requests: a limited number at once; others wait in order for a while, then are refused.

What is held of their bodies comes out of one budget of bytes. A request that finds it taken is not held: it passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Admission:
    """A turnstile for one event loop."""

    def __init__(self, at_once: int, patience: float) -> None:
        """At most `at_once` requests are inside and as many wait, each for `patience` seconds."""
        self._at_once = at_once
        self._patience = patience
        self._free = asyncio.Semaphore(at_once)
        self.inside = 0
        self.waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn. Yield True once inside; False after waiting too long, or if too many wait already."""
        if not await self._enter():
            yield False
            return
        self.inside += 1
        try:
            yield True
        finally:
            self.inside -= 1
            self._free.release()

    async def _enter(self) -> bool:
        if self._free.locked() and self.waiting >= self._at_once:
            return False
        self.waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1
        return True


class Budget:
    """Bytes of memory for all requests on their way. For one event loop."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.taken = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Yield the share of one request, given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            share.give_back()

    @property
    def left(self) -> int:
        return self._size - self.taken


class Share:
    """The part of the budget that one request takes."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, size: int) -> bool:
        """Take that many more bytes, or none if they are not available."""
        if size > self._budget.left:
            return False
        self._budget.taken += size
        self._taken += size
        return True

    def give_back(self) -> None:
        self._budget.taken -= self._taken
        self._taken = 0
