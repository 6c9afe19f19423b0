"""SAM: over a soft budget the whole past goes to pages, each behind one cue; a recall tool reads pages again.

Over the soft budget (64K of 128K tokens) everything after the task is cut into pages of at most 30K tokens, stored raw,
and replaced by one cue per page (established / excluded / unresolved / maybe later relevant). A recall re-reads a page
for a stated intent and leaves its answer in the context.

Assumptions. The source trains its memory model; an ordinary summariser takes its place (untrained). A page holds whole
Steps. Cues and recalled answers stand at the end of the task. When to recall is a rule (`recall.py`), and what the
agent's turn with that tool takes is counted (`tool_turns.py`). Paging is the method's own doing and no turn.
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

SOFT_BUDGET = 64_000
PAGE_TOKENS = 30_000
_CUE = (
    "Write a cue for this page of an agent's past, in four short lines: established, excluded, unresolved, maybe later "
    "relevant. Names and numbers word for word."
)
_RECALL = "Answer the intent from the page alone, in a few sentences, names and numbers word for word."


class Page(NamedTuple):
    """A stretch of the past, stored raw."""

    text: str
    cue: str


@dataclass
class PageStore:
    """One trajectory's pages."""

    until: int = 0
    """Messages before this one are in pages; 0: none."""
    pages: list[Page] = field(default_factory=list)
    recalled: dict[frozenset[str], str] = field(default_factory=dict)
    """Answers, by the names that were missing."""


class Sam:
    """Pages, cues and recalls."""

    name = "sam"
    title = "SAM"
    assumptions = (
        "An ordinary summariser takes the place of the trained memory model; cues have at most 160 tokens.",
        "A page holds whole Steps, so one long Step may make a longer page.",
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

    def begin(self) -> PageStore:
        return PageStore()

    def rewrite(self, request: Request, state: PageStore, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        present = _view(history, state)
        end = end_of_finished(history)
        if end > max(state.until, history.prefix_length) and self._counts.request(present) > self._counts.share(
            SOFT_BUDGET
        ):
            for text, stop in self._pages(history, state.until or history.prefix_length, end):
                cue = ledger.paid(summariser.complete(Ask("summary", _CUE, text, 160)))
                # Page by page: where a cue is refused, the next decision goes on with that page.
                state.pages.append(Page(text, cue))
                state.until = stop
            ledger.note("paged", f"{len(state.pages)} pages so far")
            present = _view(history, state)
        if state.pages:
            self._recall(history, present, state, summariser, ledger)
            present = _view(history, state)
        return ledger.rewrite(present)

    def _pages(self, history: History, first: int, end: int) -> list[tuple[str, int]]:
        """Whole Steps, as many as fit on a page, and the message behind them."""
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

    def _recall(
        self, history: History, present: Request, state: PageStore, summariser: Summariser, ledger: Ledger
    ) -> None:
        intent, visible = newest_turn(history), visible_before(present, history, state.until)
        found = wanted_page(intent, visible, [page.text for page in state.pages])
        if found is None or found[1] in state.recalled:
            return
        number, names = found
        call = ToolCall("recall", {"page": number, "intent": ", ".join(sorted(names))})
        ledger.paid(tool_turn(self._counts, present, call))
        material = f"Intent:\n{intent}\n\nPage:\n{state.pages[number].text}"
        state.recalled[names] = ledger.paid(summariser.complete(Ask("recall", _RECALL, material, 200)))
        ledger.note("recalled", f"page {number}")


def _view(history: History, state: PageStore) -> Request:
    """The task with its cues and recalled answers, and what came after the pages."""
    if not state.until:
        return history.request
    lines = [f"Page {number}: {page.cue}" for number, page in enumerate(state.pages)]
    lines += [f"Recalled: {answer}" for answer in state.recalled.values()]
    return with_section(cut(history, state.until), history.prefix_length, "Pages of the past", "\n\n".join(lines))
