"""SAM: over a soft budget the whole past goes to pages, each represented by one cue; a recall tool reads pages again.

Over the soft budget (64K of 128K tokens) everything after the task is cut into pages of at most 30K tokens, stored raw,
and replaced by one cue per page (established / excluded / unresolved / maybe later relevant). A recall re-reads a page
for a stated intent and leaves its answer in the context.

Assumptions. The source trains its memory model; an ordinary summariser takes its place (untrained). A page holds whole
Steps. Cues and recalled answers are placed at the end of the task. A rule decides when to recall (`recall.py`), and the
tokens of the agent's turn with that tool are counted (`tool_turns.py`). Paging is done by the method itself and is not
a turn.
"""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import Ledger, Rewrite
from drsr.offline.bench.comparators.edits import end_of_finished
from drsr.offline.bench.comparators.recall import PAGED, Page, PagedMethod, PageStore, RecallTool
from drsr.offline.bench.comparators.transcript import transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History, read_history
from drsr.request.request import Request

SOFT_BUDGET = 64_000
PAGE_TOKENS = 30_000
_CUE = (
    "Write a cue for this page of an agent's past, in four short lines: established, excluded, unresolved, maybe later "
    "relevant. Names and numbers word for word."
)
_RECALL = RecallTool(
    name="recall",
    page="page",
    intent="intent",
    instruction="Answer the intent from the page alone, in a few sentences, names and numbers word for word.",
    material="Intent:\n{intent}\n\nPage:\n{page}",
    section="Pages of the past",
    note="Page",
    answer="Recalled",
)


class Sam(PagedMethod):
    """Pages, cues and recalls."""

    name = "sam"
    title = "SAM"
    assumptions = (
        "An ordinary summariser takes the place of the trained memory model; cues have at most 160 tokens.",
        "A page holds whole Steps, so one long Step may make a longer page.",
        *PAGED,
    )

    def rewrite(self, request: Request, state: PageStore, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        end, present = end_of_finished(history), _RECALL.view(history, state)
        is_full = self._counts.request(present) > self._counts.share(SOFT_BUDGET)
        if is_full and end > max(state.until, history.prefix_length):
            for text, stop in self._pages(history, state.until or history.prefix_length, end):
                cue = ledger.paid(summariser.complete(Ask("summary", _CUE, text, 160)))
                # Page by page: where a cue is refused, the next decision goes on with that page.
                state.pages.append(Page(text, cue))
                state.until = stop
        if state.pages:
            _RECALL.use(history, state, self._counts, summariser, ledger)
        return ledger.rewrite(_RECALL.view(history, state))

    def _pages(self, history: History, first: int, end: int) -> list[tuple[str, int]]:
        """Return whole Steps, as many as fit on a page, and the message after them."""
        tokens = self._counts.messages(history.request)
        limit = self._counts.share(PAGE_TOKENS)
        starts = [step.message for step in history.steps if first < step.message < end]
        edges = [first]
        for start, stop in zip([first, *starts], [*starts, end], strict=True):
            if start > edges[-1] and sum(tokens[edges[-1] : stop]) > limit:
                edges.append(start)
        return [
            (transcript(history.request.messages[start:stop]), stop)
            for start, stop in zip(edges, [*edges[1:], end], strict=True)
        ]
