"""ACON-Core: a fixed written guideline; too long a history is summarised, too long a new observation rewritten.

When the history exceeds T_hist (4,096 tokens) it is summarised, with the last action and observation kept. When a new
observation exceeds T_obs (1,024 tokens) it is rewritten for good.

Assumptions. "Core" is the fixed guideline and both compressions, without the guideline's optimisation and without
distillation. The guideline's words are ours. The summary is placed at the end of the task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import cut, with_section, with_texts
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.comparators.transcript import task_of, transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History, read_history
from drsr.request.parts import PartRef, Result
from drsr.request.request import Request

HISTORY_TOKENS = 4_096
OBSERVATION_TOKENS = 1_024
GUIDELINE = (
    "Keep what later actions depend on: variables and their values, names, ids, paths, amounts and dates "
    " word for word; which actions changed something and whether they worked; errors and what they taught; open "
    "sub-goals. Leave out greetings, repetitions, layout, and whatever can be seen again at no cost. Never invent."
)
_HISTORY = f"{GUIDELINE}\n\nRewrite the history of an agent's interaction by these rules."
_OBSERVATION = f"{GUIDELINE}\n\nRewrite the newest observation by these rules, for the task that is given."


@dataclass
class AconMemory:
    """The compressed history of one trajectory."""

    summary: str = ""
    until: int = 0
    """Messages before this one are in the summary; 0 means none."""
    looked_at: int = 0
    """Steps whose observations were looked at."""
    observations: dict[PartRef, str] = field(default_factory=dict)
    """Observations that were rewritten."""


class AconCore:
    """Compresses history and observations by one guideline."""

    name = "acon_core"
    title = "ACON-Core"
    assumptions = (
        "Core means the fixed guideline with history and observation compression, no distillation; the words are ours.",
        "T_hist is 4,096 and T_obs 1,024 tokens, whatever the window; the summary stands at the end of the task.",
        WHOLE_STEPS,
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.TASK})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def begin(self) -> AconMemory:
        return AconMemory()

    def rewrite(self, request: Request, state: AconMemory, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        self._observe(history, state, summariser, ledger)
        present = with_texts(request, state.observations)
        complete = [step for step in history.steps if step.complete]
        last = complete[-1].message if complete else 0
        first = state.until or history.prefix_length
        length = sum(self._counts.messages(present)[first:last]) + self._counts.text(state.summary)
        if first < last and length > HISTORY_TOKENS:
            parts = [f"Task:\n{task_of(history)}", f"History so far:\n{state.summary or '(none)'}"]
            parts.append(f"What followed:\n{transcript(present.messages[first:last])}")
            state.summary = ledger.paid(summariser.complete(Ask("summary", _HISTORY, "\n\n".join(parts), 1024)))
            state.until = last
        if state.until:
            shorter = cut(read_history(present), state.until)
            present = with_section(shorter, history.prefix_length, "History so far", state.summary)
        return ledger.rewrite(present)

    def _observe(self, history: History, state: AconMemory, summariser: Summariser, ledger: Ledger) -> None:
        """Rewrite what is too long among observations that were not looked at yet."""
        for step in history.steps[state.looked_at :]:
            if not step.complete and step is history.steps[-1]:
                break  # its results are still to come
            state.looked_at = step.index + 1
            for ref in (ref for block in step.blocks for ref in block.parts if not block.opaque):
                part = history.request.messages[ref.message].parts[ref.part]
                if not isinstance(part, Result) or self._counts.text(part.text) <= OBSERVATION_TOKENS:
                    continue
                material = f"Task:\n{task_of(history)}\n\nObservation:\n{part.text}"
                text = ledger.paid(summariser.complete(Ask("summary", _OBSERVATION, material, OBSERVATION_TOKENS // 2)))
                if text:
                    state.observations[ref] = text
