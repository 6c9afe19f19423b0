"""What a task family is: work that can be set up in many instances, done by one scripted agent, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from drsr.offline.sandbox.agent import Move

Domain = Literal["code", "office", "security", "web"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One instance of a family, after its files were written."""

    prompt: str
    """The task, in the user's words."""
    truth: Mapping[str, str]
    """What the check compares with. The agent never sees it."""
    replies: tuple[str, ...] = ()
    """What the user answers to the agent's questions, in order."""


class Outcome(NamedTuple):
    """What a finished run left behind."""

    scenario: Scenario
    root: Path
    """The folder of the task."""
    answer: str
    """The agent's last message."""

    def text(self, path: str) -> str:
        """A file's text; empty if the file does not exist."""
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def answer_names(self, *names: str) -> bool:
        """Whether the answer contains each of these entries of the truth."""
        return all(self.scenario.truth[name] in self.answer for name in names)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task."""

    domain: Domain
    name: str
    system: str
    """The system prompt. It differs between families, so that a request tells which agent it is for."""
    tools: tuple[str, ...]
    prepare: Callable[[Random, Path], Scenario]
    """Write the files of an instance into an empty folder."""
    plan: Callable[[Random], list[Move]]
    """The agent's moves; the dice decide order and side tracks, not facts."""
    check: Callable[[Outcome], bool] = field(repr=False)
    """Whether the task was done, judged by the folder and the answer."""
