"""SelfCompact: the acting model itself says when a unit of work is closed, and then starts over from a summary.

On the full prefix it is asked a rubric: the unit is closed, three to five facts can be cited, progress was made, it is
not stuck; each with a quotation, the facts with three to five. Only if all hold and every quotation really occurs, the
conversation is reset to system, task, summary, "continue". Gates: iteration >= 3, prompt >= 40K tokens, two rounds
since the last probe.

Assumptions. Probe and summary go to the summariser, which takes the place of the acting model. A fact counts as cited
if its quotation occurs in the conversation; repeating it does not count again. The summary is an assistant message,
"continue" the user's. The two latest Steps are not protected: the source resets everything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from drsr.offline.bench.comparators.contract import WHOLE_STEPS, Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import KEEPS_UNFINISHED, cut, end_of_finished, said
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.transcript import conversation
from drsr.offline.bench.summarisers.summariser import Ask, Summariser
from drsr.request.history import History, read_history
from drsr.request.request import Request

FIRST_ITERATION = 3
PROMPT_TOKENS = 40_000
ROUNDS_BETWEEN = 2
FACTS = range(3, 6)
"""Number of different facts to quote: three to five. Every other item needs at least one quotation."""
CONTINUE = "Continue."
"""In the user's name, so that roles stay valid."""
RUBRIC = {
    "unit_closed": "the present unit of work is finished",
    "facts_cited": "three to five facts that later work needs can be quoted",
    "progress_made": "something was achieved since the start or the last summary",
    "not_stuck": "the last rounds did not repeat the same failure",
}
_PROBE = (
    "Judge whether this is a good moment to replace the conversation by a summary. Answer with one JSON object that "
    'has for each item {"holds": true or false, "evidence": ["a literal quotation from the conversation"]}, with one '
    "quotation for an item and three to five different ones, one per fact, for facts_cited:\n"
    + "\n".join(f"- {item}: {meaning}" for item, meaning in RUBRIC.items())
)
_SUMMARY = (
    "Summarise the conversation so that the work can go on from the summary alone: what was asked, what was done, "
    "facts with names, numbers and paths word for word, decisions, what comes next."
)


@dataclass
class Compaction:
    """The summary that one trajectory was reset to."""

    summary: str = ""
    until: int = 0
    """Messages before this one are summarised; 0 means none."""
    probed: int | None = None
    """Iteration of the last probe."""


class SelfCompact:
    """Reset the conversation when the rubric holds."""

    name = "selfcompact"
    title = "SelfCompact"
    assumptions = (
        "The summariser stands for the acting model; rubric and prompts are worded by us.",
        "A verdict counts only where each quotation occurs in the conversation, and three to five different ones stand "
        "for the facts.",
        "The summary is a message of the assistant, `Continue.` one of the user's; the two latest Steps go too.",
        KEEPS_UNFINISHED,
        WHOLE_STEPS,
        SCALED,
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK})

    def __init__(self, counts: TokenCounts) -> None:
        self._counts = counts
        self._prompt_tokens = counts.share(PROMPT_TOKENS)

    def begin(self) -> Compaction:
        return Compaction()

    def rewrite(self, request: Request, state: Compaction, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        present = _reset(history, state)
        iteration, end = len(history.steps), end_of_finished(history)
        rested = state.probed is None or iteration - state.probed >= ROUNDS_BETWEEN
        due = iteration >= FIRST_ITERATION and rested and end > state.until
        if due and history.prefix_length and self._counts.request(present) >= self._prompt_tokens:
            state.probed = iteration
            text = conversation(present)
            if holds(ledger.paid(summariser.complete(Ask("rubric", _PROBE, text, 512))), text):
                state.summary = ledger.paid(summariser.complete(Ask("summary", _SUMMARY, text, 1024)))
                state.until = end
                present = _reset(history, state)
        return ledger.rewrite(present)


def holds(verdict: str, text: str) -> bool:
    """Return whether every item of the rubric holds, backed by as many real quotations as it needs."""
    try:
        answer: Any = json.loads(verdict[verdict.index("{") : verdict.rindex("}") + 1])
    except ValueError:
        return False
    for name in RUBRIC:
        item = answer.get(name)
        if not isinstance(item, dict) or item.get("holds") is not True:
            return False
        quoted = _quotations(item.get("evidence"))
        if not quoted or not all(one and one in text for one in quoted):
            return False
        if name == "facts_cited" and len(quoted) not in FACTS:
            return False
    return True


def _quotations(evidence: Any) -> set[str]:
    """Return the different quotations; a single one may come without a list. Empty if anything is not text."""
    given = evidence if isinstance(evidence, list) else [evidence]
    return {one.strip() for one in given} if all(isinstance(one, str) for one in given) else set()


def _reset(history: History, state: Compaction) -> Request:
    """Return system, task, summary, and what came since; "continue" if nothing did, or if the assistant came next."""
    request, first = history.request, state.until
    if not first:
        return request
    later = request.messages[first:]
    asks_already = bool(later) and later[0].role == "user"
    go_on = [] if asks_already else [said(request, "user", CONTINUE)]
    summary = said(request, "assistant", state.summary or "(nothing to report)")
    prefix = cut(history, len(request.messages)).messages
    return request.with_messages([*prefix, summary, *go_on, *later])
