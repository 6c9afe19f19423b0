"""CoMem: a memory model summarises all older steps in the background, every k steps.

The prompt is the task, the memory's summary, and the recent turns that it does not cover yet.

Assumptions. The source trains a small memory model; an ordinary summariser takes its place (untrained). k = 4. The two
latest complete Steps are never covered. The memory is ready when the decision is made: no delay is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import cut, steps_before_recent, with_section
from drsr.offline.bench.comparators.transcript import task_of, transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import read_history
from drsr.request.request import Request

_INSTRUCTIONS = (
    "You are the memory of an agent. Write down what it needs to remember of its older steps to finish its task: facts "
    "with names, numbers and paths word for word, what was tried, what worked, what remains."
)
_MAX_TOKENS = 512


@dataclass
class CoMemory:
    """The contents of the memory."""

    steps: int = 0
    """Number of Steps that it covers."""
    text: str = ""


class CoMem:
    """Task, memory, recent turns."""

    name = "comem"
    title = "CoMem"
    assumptions = (
        "An ordinary summariser takes the place of the trained memory model; its prompt is ours.",
        "The memory reads all older Steps anew every 4 Steps, and is ready when the decision is made.",
        "The two latest complete Steps are never covered.",
        WHOLE_STEPS,
    )
    trained: Trained = "untrained"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.TASK, Keep.RECENT2})

    def __init__(self, every: int = 4) -> None:
        self.every = every

    def begin(self) -> CoMemory:
        return CoMemory()

    def rewrite(self, request: Request, state: CoMemory, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        covered = steps_before_recent(history) // self.every * self.every
        if not covered:
            return Rewrite(request)
        first = history.steps[covered].message
        if covered != state.steps:
            older = transcript(request.messages[history.prefix_length : first])
            material = f"Task:\n{task_of(history)}\n\nOlder steps:\n{older}"
            state.text = ledger.paid(summariser.complete(Ask("summary", _INSTRUCTIONS, material, _MAX_TOKENS)))
            state.steps = covered
        return ledger.rewrite(with_section(cut(history, first), history.prefix_length, "Memory", state.text))
