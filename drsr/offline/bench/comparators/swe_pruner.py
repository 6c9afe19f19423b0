"""SWE-Pruner: lines of a new tool output that do not help with a stated goal are left out, and marked.

It acts on a tool output when it arrives, given a goal question; a skimmer scores lines; runs of omitted lines are
marked. No goal, no change. What was pruned stays pruned, so the newest output is shortened too.

Assumptions. The source's skimmer is a trained model of 0.6B: `--model swe_pruner=...` supplies one, and lines whose
tokens have a mean probability of at least a half stay. Otherwise a lexical stand-in takes its place: a line is scored
by the goal's words in it and in its neighbours, weighted by their rarity in the output. The goal is the call's own
argument `context_focus_question`, else what the assistant says in the same message; a call without either has no goal.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite, Trained
from drsr.offline.bench.comparators.edits import with_texts
from drsr.offline.bench.comparators.handed_models import Scored, TokenKeeper
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.history import BlockKind, History, Step, read_history
from drsr.request.parts import Call, PartRef, Reasoning, Result, Text
from drsr.request.request import Request

GOAL_ARGUMENT = "context_focus_question"
FEWEST_LINES = 8
"""Shorter outputs are not worth skimming."""
_NEIGHBOUR = 0.5
_KEPT_FROM = 0.5
"""The mean chance of a line's tokens from which a handed-in skimmer keeps it."""
_WORD = re.compile(r"[^\W_]{3,}")
_ALWAYS = re.compile(r"error|exception|traceback|failed|warning", re.IGNORECASE)


class SwePruner(PlainMethod):
    """Leaves out lines."""

    name = "swe_pruner"
    title = "SWE-Pruner"
    assumptions: tuple[str, ...] = (
        "A lexical stand-in takes the place of the trained skimmer: the goal's words in a line and its neighbours.",
        "The goal is the argument context_focus_question where a call has it, else what the assistant says beside it.",
        "Outputs of fewer than 8 lines stay; the first and the last line and lines that speak of errors always stay.",
    )
    trained: Trained = "stand-in"
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.USER})

    def __init__(self, skimmer: TokenKeeper | None = None) -> None:
        self._skimmer = skimmer
        self.model_identity = "" if skimmer is None else skimmer.identity
        if skimmer is not None:
            self.trained = "handed in"
            said = f"The skimmer is {skimmer.said}; it keeps lines whose tokens stay with a mean chance of a half."
            self.assumptions = (said, *self.assumptions[1:])

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        history = read_history(request)
        texts: dict[PartRef, str] = {}
        read = 0
        for step in history.steps:
            found, tokens = self._pruned(history, step)
            texts |= found
            read += tokens
        return Rewrite(with_texts(request, texts), read)

    def _pruned(self, history: History, step: Step) -> tuple[dict[PartRef, str], int]:
        """Return the shorter outputs of a Step, and the tokens that the skimmer read for them."""
        parts = history.request.messages[step.message].parts
        spoken = "\n".join(part.text for part in parts if isinstance(part, Text | Reasoning))
        texts: dict[PartRef, str] = {}
        read = 0
        for block in step.blocks:
            if block.kind is not BlockKind.TOOL_EXCHANGE or block.opaque or len(block.parts) < 2:
                continue
            call, result = (history.request.messages[ref.message].parts[ref.part] for ref in block.parts)
            if isinstance(call, Call) and isinstance(result, Result):
                shorter, tokens = self._skimmed(result.text, _goal(call) or spoken)
                read += tokens
                if len(shorter) < len(result.text):
                    texts[block.parts[1]] = shorter
        return texts, read

    def _skimmed(self, output: str, goal: str) -> tuple[str, int]:
        lines = output.splitlines()
        if self._skimmer is None or len(lines) < FEWEST_LINES or not goal.strip():
            return skim(output, goal), 0
        found: Scored = self._skimmer([f"{line}\n" for line in lines], goal)
        return _without(lines, [score >= _KEPT_FROM for score in found.scores]), found.tokens


def skim(output: str, goal: str) -> str:
    """Return the output without the lines that share nothing with the goal; unchanged if none shares anything."""
    lines = output.splitlines()
    wanted = set(_words(goal))
    if len(lines) < FEWEST_LINES or not wanted:
        return output
    occurs = Counter(word for line in lines for word in set(_words(line)))
    own = [sum(math.log(1 + len(lines) / occurs[word]) for word in wanted & set(_words(line))) for line in lines]
    padded = [0.0, *own, 0.0]
    scores = [padded[at] + _NEIGHBOUR * (padded[at - 1] + padded[at + 1]) for at in range(1, len(lines) + 1)]
    if not any(scores):
        return output
    threshold = sum(scores) / len(scores)
    return _without(lines, [score >= threshold for score in scores])


def _without(lines: list[str], wanted: list[bool]) -> str:
    """Return the lines that are wanted, first, last and those about errors among them, with marks where others were."""
    ends = (0, len(lines) - 1)
    stays = [at in ends or wanted[at] or bool(_ALWAYS.search(line)) for at, line in enumerate(lines)]
    written: list[str] = []
    omitted = 0
    for line, stay in zip(lines, stays, strict=True):
        if not stay:
            omitted += 1
            continue
        if omitted:
            written.append(f"[{omitted} lines omitted]")
            omitted = 0
        written.append(line)
    return "\n".join(written)


def _goal(call: Call) -> str:
    given = call.arguments.get(GOAL_ARGUMENT) if isinstance(call.arguments, dict) else None
    return given if isinstance(given, str) else ""


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
