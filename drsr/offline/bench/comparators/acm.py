"""ACM: the agent manages its own context with two tools.

`manage_context` summarises all messages since the previous summary and archives them raw under an id; `query_memory`
answers from the archive.

Assumptions. The source trains the agent to call them; here rules stand for it (untrained): `manage_context` is called
when more than 32K of 128K tokens have come since the previous summary, `query_memory` by the rule of `recall.py`. All
summaries stand at the end of the task, the latest last. What the agent's turns with the tools take is counted
(`tool_turns.py`), besides what the summariser does for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from drsr.offline.bench.comparators.boundaries import KEEPS_UNFINISHED, end_of_finished
from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import cut, with_section
from drsr.offline.bench.comparators.recall import SCRIPTED_RECALL, newest_turn, visible_before, wanted_page
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.tool_turns import TOOL_TURNS, ToolCall, tool_turn
from drsr.offline.bench.comparators.transcript import transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History, read_history
from drsr.request.request import Request

SINCE_SUMMARY = 32_000
_SUMMARISE = (
    "Summarise what happened since your previous summary, for yourself: results with names, numbers and paths word for "
    "word, decisions, and what to do next."
)
_QUERY = "Answer the query from the archived messages alone, in a few sentences, names and numbers word for word."


class Archived(NamedTuple):
    """What one call of `manage_context` put away."""

    text: str
    summary: str


@dataclass
class Archive:
    """One trajectory's archive; ids are positions."""

    until: int = 0
    """Messages before this one are archived; 0: none."""
    entries: list[Archived] = field(default_factory=list)
    answers: dict[frozenset[str], str] = field(default_factory=dict)

    def manage_context(self, history: History, end: int, summariser: Summariser, ledger: Ledger) -> None:
        """Summarise and archive all since the previous summary."""
        text = transcript(history.request.messages[self.until or history.prefix_length : end])
        summary = ledger.paid(summariser.complete(Ask("summary", _SUMMARISE, text, 400)))
        self.entries.append(Archived(text, summary))
        self.until = end
        ledger.note("archived", f"as {len(self.entries) - 1}")

    def query_memory(self, query: str, number: int, summariser: Summariser, ledger: Ledger) -> str:
        """Answer from what is archived under an id."""
        material = f"Query:\n{query}\n\nArchived messages:\n{self.entries[number].text}"
        ledger.note("queried", f"archive {number}")
        return ledger.paid(summariser.complete(Ask("recall", _QUERY, material, 200)))


class Acm:
    """Summaries by tool call, with an archive."""

    name = "acm"
    title = "ACM"
    assumptions = (
        "Rules stand for the trained agent's tool calls: a summary is due after a quarter of the window.",
        "The calls themselves are not written into the conversation; their outcome stands at the end of the task.",
        SCRIPTED_RECALL,
        TOOL_TURNS,
        KEEPS_UNFINISHED,
        WHOLE_STEPS,
        SCALED,
    )
    trained: Trained = "untrained"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.TASK})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def begin(self) -> Archive:
        return Archive()

    def rewrite(self, request: Request, state: Archive, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        first, end = state.until or history.prefix_length, end_of_finished(history)
        if sum(self._counts.messages(request)[first:end]) > self._counts.share(SINCE_SUMMARY):
            shown = _view(history, state) if state.until else request
            ledger.paid(tool_turn(self._counts, shown, ToolCall("manage_context", {})))
            state.manage_context(history, end, summariser, ledger)
        if not state.until:
            return Rewrite(request)
        present = _view(history, state)
        query, visible = newest_turn(history), visible_before(present, history, state.until)
        found = wanted_page(query, visible, [entry.text for entry in state.entries])
        if found is not None and found[1] not in state.answers:
            call = ToolCall("query_memory", {"id": found[0], "query": ", ".join(sorted(found[1]))})
            ledger.paid(tool_turn(self._counts, present, call))
            state.answers[found[1]] = state.query_memory(query, found[0], summariser, ledger)
        return ledger.rewrite(_view(history, state))


def _view(history: History, state: Archive) -> Request:
    """The task with all summaries and answers, and what came after them."""
    lines = [f"Summary {number}: {entry.summary}" for number, entry in enumerate(state.entries)]
    lines += [f"From memory: {answer}" for answer in state.answers.values()]
    shorter = cut(history, state.until)
    return with_section(shorter, history.prefix_length, "Summaries so far", "\n\n".join(lines))
