"""A past that is stored in pages, each represented by a note, and the rule for reading a page again.

A recorded run had no recall tool, so it is unknown when its model would have called it. A rule decides instead: if the
newest turn names something (an id, a path, a number) that is not in the visible context but is in a stored page, that
page is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Trained
from drsr.offline.bench.comparators.edits import KEEPS_UNFINISHED, cut, with_section
from drsr.offline.bench.comparators.identifiers import identifiers
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.tool_turns import TOOL_TURNS, ToolCall, tool_turn
from drsr.offline.bench.comparators.transcript import conversation, transcript
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History
from drsr.request.request import Request

SCRIPTED_RECALL = (
    "When the model would call for a stored page is not recorded; a rule stands for it: the newest turn names "
    "something that is in a page and nowhere in the visible context."
)
PAGED = (SCRIPTED_RECALL, TOOL_TURNS, KEEPS_UNFINISHED, WHOLE_STEPS, SCALED)
"""The assumptions of every method that stores the past in pages."""


class Page(NamedTuple):
    """A stretch of the past, stored raw, and the note in its place."""

    text: str
    note: str


@dataclass
class PageStore:
    """One trajectory's pages; ids are positions."""

    until: int = 0
    """Messages before this one are in pages; 0 means none."""
    pages: list[Page] = field(default_factory=list)
    recalled: dict[frozenset[str], str] = field(default_factory=dict)
    """Answers, by the names that were missing."""


class PagedMethod:
    """The part that methods with pages share. Their sources train a model; here an ordinary one takes its place."""

    trained: Trained = "untrained"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.TASK})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def begin(self) -> PageStore:
        return PageStore()


class RecallTool(NamedTuple):
    """A method's tool that answers from a page, and how its pages are shown."""

    name: str
    page: str
    """Its argument that names the page."""
    intent: str
    """Name of the argument that says what is wanted."""
    instruction: str
    material: str
    """Text that the summariser reads, with `{intent}` and `{page}`."""
    section: str
    """Title of the section with all notes and answers, after the task."""
    note: str
    """Heading of a note, followed by the page's number."""
    answer: str
    """Heading of an answer."""

    def view(self, history: History, store: PageStore) -> Request:
        """Return the task with all notes and answers, and what came after the pages."""
        if not store.until:
            return history.request
        lines = [f"{self.note} {number}: {page.note}" for number, page in enumerate(store.pages)]
        lines += [f"{self.answer}: {answer}" for answer in store.recalled.values()]
        return with_section(cut(history, store.until), history.prefix_length, self.section, "\n\n".join(lines))

    def use(
        self, history: History, store: PageStore, counts: TokenCounts, summariser: Summariser, ledger: Ledger
    ) -> None:
        """Read a page again if the rule wants a page that was not yet read for the same names."""
        present = self.view(history, store)
        wanted, visible = newest_turn(history), visible_before(present, history, store.until)
        found = wanted_page(wanted, visible, [page.text for page in store.pages])
        if found is None or found[1] in store.recalled:
            return
        number, names = found
        call = ToolCall(self.name, {self.page: number, self.intent: ", ".join(sorted(names))})
        ledger.paid(tool_turn(counts, present, call))
        material = self.material.format(intent=wanted, page=store.pages[number].text)
        store.recalled[names] = ledger.paid(summariser.complete(Ask("recall", self.instruction, material, 200)))


def newest_turn(history: History) -> str:
    """Return the last Step and what followed it: what an agent would state as its intent."""
    first = history.steps[-1].message if history.steps else 0
    return transcript(history.request.messages[first:])


def visible_before(shown: Request, history: History, until: int) -> str:
    """Return all that the agent still sees when it comes to its newest turn. `shown` is the request without the
    messages that were put away, those before `until`."""
    newest = history.steps[-1].message if history.steps else 0
    behind = len(history.request.messages) - max(newest, until)
    return conversation(shown.with_messages(shown.messages[: len(shown.messages) - behind]))


def wanted_page(intent: str, visible: str, pages: Sequence[str]) -> tuple[int, frozenset[str]] | None:
    """Return the page that holds most of what the intent names and the visible context before it does not; and those
    names."""
    missing = identifiers(intent) - identifiers(visible)
    found = [(len(missing & identifiers(page)), -number) for number, page in enumerate(pages)]
    best = max(found, default=(0, 0))
    return (-best[1], missing & identifiers(pages[-best[1]])) if best[0] else None
