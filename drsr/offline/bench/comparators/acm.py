"""ACM: the agent manages its own context with two tools.

`manage_context` summarises all messages since the previous summary and archives them raw under an id; `query_memory`
answers from the archive.

Assumptions. The source trains the agent to call them; here rules take the agent's place (untrained): `manage_context`
is called when more than 32K of 128K tokens have come since the previous summary, `query_memory` by the rule of
`recall.py`. All summaries are placed at the end of the task, the latest last. The tokens of the agent's turns with the
tools are counted (`tool_turns.py`), in addition to those of the summariser.
"""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import Ledger, Rewrite
from drsr.offline.bench.comparators.edits import end_of_finished
from drsr.offline.bench.comparators.recall import PAGED, Page, PagedMethod, PageStore, RecallTool
from drsr.offline.bench.comparators.tool_turns import ToolCall, tool_turn
from drsr.offline.bench.comparators.transcript import transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import read_history
from drsr.request.request import Request

SINCE_SUMMARY = 32_000
_SUMMARISE = (
    "Summarise what happened since your previous summary, for yourself: results with names, numbers and paths word for "
    "word, decisions, and what to do next."
)
_MEMORY = RecallTool(
    name="query_memory",
    page="id",
    intent="query",
    instruction="Answer the query from the archived messages alone, in a few sentences, names and numbers word for "
    "word.",
    material="Query:\n{intent}\n\nArchived messages:\n{page}",
    section="Summaries so far",
    note="Summary",
    answer="From memory",
)


class Acm(PagedMethod):
    """Summaries by tool call, with an archive."""

    name = "acm"
    title = "ACM"
    assumptions = (
        "Rules stand for the trained agent's tool calls: a summary is due after a quarter of the window.",
        "The calls themselves are not written into the conversation; their outcome stands at the end of the task.",
        *PAGED,
    )

    def rewrite(self, request: Request, state: PageStore, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        first, end = state.until or history.prefix_length, end_of_finished(history)
        if sum(self._counts.messages(request)[first:end]) > self._counts.share(SINCE_SUMMARY):
            ledger.paid(tool_turn(self._counts, _MEMORY.view(history, state), ToolCall("manage_context", {})))
            text = transcript(request.messages[first:end])
            summary = ledger.paid(summariser.complete(Ask("summary", _SUMMARISE, text, 400)))
            state.pages.append(Page(text, summary))
            state.until = end
        if not state.until:
            return Rewrite(request)
        _MEMORY.use(history, state, self._counts, summariser, ledger)
        return ledger.rewrite(_MEMORY.view(history, state))
