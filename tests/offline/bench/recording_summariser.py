"""A double of a summariser that keeps what it was asked, and answers as it was told."""

from __future__ import annotations

from collections.abc import Callable

from drsr.offline.bench.summarisers.summariser import Ask, Completion


class RecordingSummariser:
    """Answers by a function; every answer took 100 tokens in and 10 out."""

    def __init__(self, answer: Callable[[Ask], str] = lambda ask: "in short") -> None:
        self._answer = answer
        self.asked: list[Ask] = []

    @property
    def name(self) -> str:
        return "recording double"

    def complete(self, ask: Ask) -> Completion:
        self.asked.append(ask)
        return Completion(self._answer(ask), 100, 10)
