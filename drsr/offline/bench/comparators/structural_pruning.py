"""Structural Pruning, the paper's own simple rule (appendix "Structural Pruning Baseline").

Recent2 is protected, every tool exchange and all state-bearing text stays; only short transition narration goes for
which later structure is a witness.

Assumptions. Transition narration is an assistant_state of fewer than 40 words without a number, path, identifier or
decision verb, whose Step also holds a tool exchange: that exchange is the witness of what the text announced.
"""

from __future__ import annotations

import re

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.history import Block, BlockKind, History, Step, delete, read_history
from drsr.request.parts import Reasoning, Text
from drsr.request.request import Request

MOST_WORDS = 40
"""Narration has fewer words than this."""
_NUMBER = re.compile(r"\d")
_PATH = re.compile(r"[/\\][\w.-]|\b\w+\.[A-Za-z]\w*\b")
_IDENTIFIER = re.compile(r"\w_\w|\b[a-z]+[A-Z]\w*|\b[A-Z]{2,}\b|`[^`]+`|\w\(\)|\w::\w|#\w")
_DECISIONS = re.compile(
    r"\b(decid|chos|choos|conclud|confirm|determin|reject|approv|agree|prefer|select|must|cannot|can't|should|instead|"
    r"because|therefore|found|fixed|verified|failed|solved|root cause|answer is|turns out)",
    re.IGNORECASE,
)


class StructuralPruning(PlainMethod):
    """Deletes transition narration."""

    name = "structural_pruning"
    title = "Structural Pruning"
    assumptions = (
        "Transition narration is an assistant_state of fewer than 40 words without a number, path, identifier or "
        "decision verb, whose Step also holds a tool exchange.",
        "The list of decision verbs is ours, and English.",
    )
    keeps = frozenset(Keep)

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        history = read_history(request)
        narration = [block for step in history.older for block in _narration(history, step)]
        return Rewrite(delete(history, narration).request if narration else request)


def _narration(history: History, step: Step) -> list[Block]:
    witnessed = any(block.kind is BlockKind.TOOL_EXCHANGE for block in step.blocks)
    return [
        block
        for block in step.blocks
        if witnessed and block.kind is BlockKind.ASSISTANT_STATE and not block.opaque and _is_transition(history, block)
    ]


def _is_transition(history: History, block: Block) -> bool:
    parts = [history.request.messages[ref.message].parts[ref.part] for ref in block.parts]
    text = "\n".join(part.text for part in parts if isinstance(part, Text | Reasoning))
    return len(text.split()) < MOST_WORDS and not any(
        sign.search(text) for sign in (_NUMBER, _PATH, _IDENTIFIER, _DECISIONS)
    )
