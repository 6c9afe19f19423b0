"""Admission of requests: a limited number at once; others wait in order for a while, then are refused.

A waiting request's body has not been read yet, so what is held in memory is bounded too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Admission:
    """A turnstile for one event loop."""

    def __init__(self, at_once: int, patience: float) -> None:
        """At most `at_once` are inside and as many wait, each for `patience` seconds."""
        self._at_once = at_once
        self._patience = patience
        self._free = asyncio.Semaphore(at_once)
        self.inside = 0
        self.waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """True inside; False for whoever waited in vain, or found too many waiting already."""
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
