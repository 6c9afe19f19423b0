"""What a task family is: work that can be set up in many instances, done by one scripted agent, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from drsr.offline.sandbox.agent import BRIEF, Move

Domain = Literal["code", "office", "security", "web"]

_RULES = (
    "Rules for every task: work in small steps and look before you act. Copy names, numbers and paths exactly as they "
    "are shown, and never invent a value; what you do not know you look up. Change nothing that was not asked for. Ask "
    "the user only where the task says so, with one short question. Say little while you work. When everything is "
    "done, answer in one or two plain sentences and call no tool."
)
"""Ends every system prompt. It stands in front of all Blocks, so it is computed once however many sets are deleted."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One instance of a family, after its files were written."""

    prompt: str
    """The task, in the user's words."""
    truth: Mapping[str, str]
    """What the check compares with. The agent never sees it."""
    replies: tuple[str, ...] = ()
    """What the user answers to the agent's questions, in order."""
    brief: bool = False
    """Whether the user is content with a short confirmation, which needs little of what was found out."""

    def made_brief(self) -> Scenario:
        """The same task, with a short confirmation at its end."""
        return replace(self, prompt=f"{self.prompt} {BRIEF}", brief=True)


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

    def last_line(self, path: str) -> str:
        """A file's last line; empty if there is none."""
        return (self.text(path).splitlines() or [""])[-1]

    def answer_names(self, *names: str, brief: tuple[str, ...]) -> bool:
        """Whether the answer contains each of these entries of the truth; of a brief task, only those of `brief`."""
        wanted = brief if self.scenario.brief else names
        return all(self.scenario.truth[name] in self.answer for name in wanted)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task."""

    domain: Domain
    name: str
    role: str
    """What the system prompt begins with. It differs between families: a request tells which agent it is for."""
    tools: tuple[str, ...]
    prepare: Callable[[Random, Path], Scenario]
    """Write the files of an instance into an empty folder."""
    plan: Callable[[Random], list[Move]]
    """The agent's moves; the dice decide order and side tracks, not facts."""
    check: Callable[[Outcome], bool] = field(repr=False)
    """Whether the task was done, judged by the folder and the answer."""

    @property
    def system(self) -> str:
        """The system prompt."""
        return f"{self.role}\n\n{_RULES}"
