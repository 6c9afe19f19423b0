"""Sculptor: tools with which an agent shapes its own context. Messages never change in number or order, and every
change can be taken back.

`fragment` gives a long text's pieces ids, `fold` hides one behind its id, `summarise` writes a summary over one,
`restore` brings it back, `search` finds the hidden pieces that hold a text.

Assumptions. The source's agent calls the tools itself, zero-shot or after RL. A scripted policy takes its place: tool
results before Recent2 of more than 200 tokens are fragmented by lines into pieces of about 100 tokens, and all but the
first are folded; above half of the window the first is summarised too; names in the newest turn that only hidden pieces
hold are searched for and restored. Each tool takes a turn of the agent, which is counted (`tool_turns.py`): one per
result to fragment it and one to fold its pieces, one per summary, and per name one to search for it and one to restore
what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from drsr.offline.bench.comparators.contract import Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import steps_before_recent, with_texts
from drsr.offline.bench.comparators.identifiers import identifiers
from drsr.offline.bench.comparators.recall import newest_turn
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.tool_turns import TOOL_TURNS, ToolCall, tool_turn
from drsr.offline.bench.comparators.transcript import conversation
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History, read_history
from drsr.request.parts import PartRef, Result
from drsr.request.request import Request

LONG_RESULT = 200
FRAGMENT_TOKENS = 100
PRESSURE = 64_000
LONGEST_MARK = 40
"""Characters; shorter pieces would grow by being folded."""
_SUMMARISE = "Summarise this fragment in one sentence, names and numbers word for word."


@dataclass
class Fragment:
    """One piece of a text."""

    id: str
    text: str
    state: Literal["shown", "folded", "summarised"] = "shown"
    summary: str = ""

    @property
    def written(self) -> str:
        """Return the fragment as it appears in the context."""
        if self.state == "folded":
            return f"[fragment {self.id} folded]"
        return f"[fragment {self.id}: {self.summary}]" if self.state == "summarised" else self.text


@dataclass
class ContextTools:
    """The tools, and what they did to one trajectory's context."""

    fragments: dict[PartRef, list[Fragment]] = field(default_factory=dict)

    def fragment(self, ref: PartRef, pieces: list[str]) -> list[Fragment]:
        """Give the pieces of a text their ids. Together they are the text."""
        self.fragments[ref] = [
            Fragment(f"{ref.message}_{ref.part}_{number}", piece) for number, piece in enumerate(pieces)
        ]
        return self.fragments[ref]

    def fold(self, one: Fragment) -> None:
        one.state = "folded"

    def summarise(self, one: Fragment, summary: str) -> None:
        one.state, one.summary = "summarised", summary

    def restore(self, one: Fragment) -> None:
        one.state = "shown"

    def search(self, name: str) -> list[Fragment]:
        """Return the hidden pieces that hold this."""
        every = (one for pieces in self.fragments.values() for one in pieces)
        return [one for one in every if one.state != "shown" and name in one.text]

    def written(self) -> dict[PartRef, str]:
        """Return the text of every fragmented part that has changed."""
        return {
            ref: "".join(one.written for one in pieces)
            for ref, pieces in self.fragments.items()
            if any(one.state != "shown" for one in pieces)
        }


class Sculptor:
    """A scripted policy with the tools."""

    name = "sculptor"
    title = "Sculptor"
    assumptions = (
        "A scripted policy stands for the agent's tool calls: results before Recent2 of more than 200 tokens are cut "
        "into fragments of about 100 tokens, of which all but the first are folded.",
        "Over half of the window the first fragment is summarised; what the newest turn names is restored.",
        "The tool turns themselves are not written into the conversation.",
        TOOL_TURNS,
        "Pieces of one result are folded in one turn, and what one search found is restored in one.",
        SCALED,
    )
    trained: Trained = "stand-in"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2, Keep.USER})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts

    def begin(self) -> ContextTools:
        return ContextTools()

    def rewrite(self, request: Request, state: ContextTools, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        for ref, text in self._long_results(history).items():
            if ref not in state.fragments:
                self._fold(request, state, ref, text, ledger)
        present = with_texts(request, state.written())
        if self._counts.request(present) > self._counts.share(PRESSURE):
            for pieces in state.fragments.values():
                if pieces[0].state == "shown" and not pieces[0].summary:
                    self._turn(request, state, ledger, ToolCall("summarise", {"id": pieces[0].id}))
                    ask = Ask("summary", _SUMMARISE, pieces[0].text, 48)
                    state.summarise(pieces[0], ledger.paid(summariser.complete(ask)))
        self._restore(history, state, ledger)
        return ledger.rewrite(with_texts(request, state.written()))

    def _turn(self, request: Request, state: ContextTools, ledger: Ledger, *calls: ToolCall) -> None:
        ledger.paid(tool_turn(self._counts, with_texts(request, state.written()), *calls))

    def _fold(self, request: Request, state: ContextTools, ref: PartRef, text: str, ledger: Ledger) -> None:
        self._turn(request, state, ledger, ToolCall("fragment", {"message": ref.message}))
        pieces = state.fragment(ref, self._pieces(text))
        folded = [one for one in pieces[1:] if len(one.text) > LONGEST_MARK]
        if folded:
            self._turn(request, state, ledger, *(ToolCall("fold", {"id": one.id}) for one in folded))
            for one in folded:
                state.fold(one)

    def _restore(self, history: History, state: ContextTools, ledger: Ledger) -> None:
        last = history.steps[-1].message if history.steps else len(history.request.messages)
        shown = with_texts(history.request, state.written())
        visible = conversation(shown.with_messages(shown.messages[:last]))
        for name in sorted(identifiers(newest_turn(history)) - identifiers(visible)):
            found = state.search(name)
            if found:
                self._turn(history.request, state, ledger, ToolCall("search", {"text": name}))
                self._turn(history.request, state, ledger, *(ToolCall("restore", {"id": one.id}) for one in found))
                for one in found:
                    state.restore(one)

    def _long_results(self, history: History) -> dict[PartRef, str]:
        found: dict[PartRef, str] = {}
        for step in history.steps[: steps_before_recent(history)]:
            for ref in (ref for block in step.blocks if not block.opaque for ref in block.parts):
                part = history.request.messages[ref.message].parts[ref.part]
                if isinstance(part, Result) and self._counts.text(part.text) > LONG_RESULT:
                    found[ref] = part.text
        return found

    def _pieces(self, text: str) -> list[str]:
        """Return pieces of whole lines, as many as fit; a longer line is a separate piece."""
        pieces: list[str] = []
        room = 0
        for line in text.splitlines(keepends=True):
            tokens = self._counts.text(line)
            if pieces and tokens <= room:
                pieces[-1] += line
                room -= tokens
            else:
                pieces.append(line)
                room = FRAGMENT_TOKENS - tokens
        return pieces
