"""Periodic Summary: after every n Steps a rolling summary of them takes their place.

A recent tail of two Steps is not changed. As soon as n complete Steps before it are not summarised yet, the old summary
and those n Steps become the new summary. It is placed in a section "Previous context" at the end of the user's first
message, so that roles stay valid.

Assumptions. Prompt, placement and the tail of two are ours; the source only says "a summary every n Steps".
"""

from __future__ import annotations

from dataclasses import dataclass

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import cut, steps_before_recent, with_section
from drsr.offline.bench.comparators.transcript import task_of, transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import read_history
from drsr.request.request import Request

SECTION = "Previous context"
_INSTRUCTIONS = (
    "You keep the notes of an agent at work. Rewrite the notes so that they also cover the new steps: what was done, "
    "what was found (names, numbers, paths and ids word for word), what was decided, what is still open. "
    "Write plain sentences, nothing else."
)
_MAX_TOKENS = 512


@dataclass
class RollingSummary:
    """The Steps that one trajectory's summary covers."""

    steps: int = 0
    """Number of Steps that it covers, from the first on."""
    text: str = ""


class PeriodicSummary:
    """Summarises every `every` Steps."""

    assumptions = (
        "The summariser's prompt, its answer of at most 512 tokens, and the place of the summary are ours.",
        "The two latest complete Steps are never summarised.",
        WHOLE_STEPS,
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.TASK, Keep.RECENT2})

    def __init__(self, every: int) -> None:
        self.every = every
        self.name = f"periodic_summary_{every}"
        self.title = f"Periodic Summary (n={every})"

    def begin(self) -> RollingSummary:
        return RollingSummary()

    def rewrite(self, request: Request, state: RollingSummary, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        past = steps_before_recent(history)
        while past - state.steps >= self.every:
            until = state.steps + self.every
            first, stop = history.steps[state.steps].message, history.steps[until].message
            material = [f"Task:\n{task_of(history)}", f"Notes so far:\n{state.text or '(none)'}"]
            material.append(f"New steps:\n{transcript(request.messages[first:stop])}")
            ask = Ask("summary", _INSTRUCTIONS, "\n\n".join(material), _MAX_TOKENS)
            state.text, state.steps = ledger.paid(summariser.complete(ask)), until
        if not state.steps:
            return Rewrite(request)
        shorter = cut(history, history.steps[state.steps].message)
        return ledger.rewrite(with_section(shorter, history.prefix_length, SECTION, state.text))
