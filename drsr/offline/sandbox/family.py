"""Define a task family: work that can be set up in many instances, done by one scripted agent, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import BRIEF, Move
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.workshop.pages import submissions
from drsr.offline.sandbox.workshop.workspace import LOG

_RULES = (
    "Rules for every task: work in small steps and look before you act. Copy names, numbers and paths exactly as they "
    "are shown, and never invent a value; what you do not know you look up. Change nothing that was not asked for. Ask "
    "the user only where the task says so, with one short question. Say little while you work. When everything is "
    "done, answer in one or two plain sentences and call no tool."
)
"""End of every system prompt. It comes before all Blocks, so it is computed once however many sets are deleted."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One instance of a family, after its files were written."""

    prompt: str
    """The task, in the user's words."""
    truth: Mapping[str, str]
    """Value that the check compares with. The agent never sees it."""
    replies: tuple[str, ...] = ()
    """The user's answers to the agent's questions, in order."""
    brief: bool = False
    """Whether the user is content with a short confirmation, which needs little of what was found out."""

    def made_brief(self) -> Scenario:
        """Return the same task, with a short confirmation at its end."""
        return replace(self, prompt=f"{self.prompt} {BRIEF}", brief=True)


class Outcome(NamedTuple):
    """The remains of a finished run."""

    scenario: Scenario
    root: Path
    """The folder of the task."""
    answer: str
    """The agent's last message."""

    def text(self, path: str) -> str:
        """Return a file's text; empty if the file does not exist."""
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def last_line(self, path: str) -> str:
        """Return a file's last line; empty if there is none."""
        return (self.text(path).splitlines() or [""])[-1]

    def sent_once(self, fields: Sequence[str]) -> bool:
        """Return whether one form was sent with the truth in these fields, and the answer has the number it got."""
        sent = submissions(self.root)
        return (
            len(sent) == 1
            and all(sent[0]["fields"][name] == self.scenario.truth[name] for name in fields)
            and sent[0]["number"] in self.answer
        )


class SideTrack(NamedTuple):
    """A detour of a plan that is taken by chance."""

    chance: float
    moves: Sequence[str]
    """One of these is made."""
    at: Sequence[int] | None = None
    """Place among the moves so far: from the first number to below the second; after all of them if None."""


class Requirement(NamedTuple):
    """The questions a script asks of a finished run; names are those of the truth's entries, separated by blanks."""

    answer: str
    """Facts that the answer names."""
    brief: str
    """Facts that the answer names if the user asked for a short confirmation."""
    log: str | None = None
    """The last line of the log, with `{name}` for entries of the truth."""
    form: str | None = None
    """Fields of the one form that was sent; the answer names the number that it got."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task, as its script and its module describe it (see `script.py`)."""

    domain: str
    name: str
    role: str
    """Beginning of the system prompt. It differs between families, so a request shows which agent it is for."""
    tools: tuple[str, ...]
    prompts: tuple[str, ...]
    """The wordings of the task, in the user's words."""
    pieces: tuple[str | Sequence[str] | SideTrack, ...]
    """The plan: moves separated by blanks, several of those to choose from, or a side track."""
    moves: Mapping[str, Move]
    requirement: Requirement
    write: Callable[[Random, Path], Scenario] = field(repr=False)
    """Write the files of an instance into a folder that has the background files only."""
    done: Callable[[Outcome], bool] = field(repr=False)
    """Whether the folder is as it should be, as far as the requirement does not say it."""

    @property
    def system(self) -> str:
        """The system prompt."""
        return f"{self.role}\n\n{_RULES}"

    def prepare(self, dice: Random, root: Path) -> Scenario:
        """Write the files of an instance into an empty folder."""
        if "open" not in self.tools:  # a site comes with background pages of its own
            write_background(dice, root)
        return self.write(dice, root)

    def plan(self, dice: Random) -> list[Move]:
        """Return the agent's moves; the dice decide order, side tracks and noise, not facts."""
        names: list[str] = []
        for piece in self.pieces:
            if not isinstance(piece, SideTrack):
                names += (piece if isinstance(piece, str) else dice.choice(piece)).split()
            elif dice.random() < piece.chance:
                place = len(names) if piece.at is None else _place(dice, *piece.at)
                names.insert(place, piece.moves[0] if len(piece.moves) == 1 else dice.choice(piece.moves))
        return mix(dice, [self.moves[name] for name in names], self.tools)

    def check(self, outcome: Outcome) -> bool:
        """Return whether the task was done, judged by the folder and the answer."""
        truth, wanted = outcome.scenario.truth, self.requirement
        names = wanted.brief if outcome.scenario.brief else wanted.answer
        return (
            (wanted.log is None or outcome.last_line(LOG) == wanted.log.format(**truth))
            and (wanted.form is None or outcome.sent_once(wanted.form.split()))
            and self.done(outcome)
            and all(truth[name] in outcome.answer for name in names.split())
        )


def _place(dice: Random, first: int, end: int) -> int:
    """A place from `first` to below `end`; the dice are not thrown where there is only one."""
    return first if end - first == 1 else dice.randrange(first, end)
