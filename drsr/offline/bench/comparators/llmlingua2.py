"""LLMLingua-2: words that a token classifier would drop are dropped from old tool results and old assistant text.

A word's score is the mean of its sub-tokens' scores. Words above the percentile that gives the target rate stay; words
with a digit and line ends always stay. Ids, arguments and Recent2 are never touched. It runs when the request is over
its budget, and the target rate brings it back to the budget.

Assumptions. The source's classifier comes from a hub: `--model llmlingua2=...` supplies it. Otherwise a stand-in takes
its place: a sub-token's score is its surprisal among all that may be compressed, -log of its share; then the row shows
only the effect of dropping frequent words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite, Trained
from drsr.offline.bench.comparators.edits import steps_before_recent, with_texts
from drsr.offline.bench.comparators.handed_models import Scored, TokenKeeper
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.contracts import TokenIds
from drsr.request.history import History, read_history
from drsr.request.parts import PartRef, Result, Text
from drsr.request.request import Request

BUDGET = 32_000
"""Tokens of a request, for a window of 128K."""
LOWEST_RATE = 1 / 3
_WORD = re.compile(r"\S+\s*")
_FORCED = re.compile(r"\d|\n")


def surprisal(words: Sequence[TokenIds]) -> list[list[float]]:
    """Return the stand-in score: -log of a sub-token's share among all of them."""
    counts = Counter(int(token) for word in words for token in word)
    total = sum(counts.values())
    return [[-math.log(counts[int(token)] / total) for token in word] for word in words]


class LlmLingua2(PlainMethod):
    """Drops words."""

    name = "llmlingua2"
    title = "LLMLingua-2"
    assumptions: tuple[str, ...] = (
        "The token classifier is a stand-in: a sub-token counts by how rare it is in what may be compressed.",
        "The budget is a quarter of the window, and no more than two thirds of the words are dropped.",
        "Words with a digit and words before a line end are forced to stay.",
        SCALED,
    )
    trained: Trained = "stand-in"
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2, Keep.USER})

    def __init__(self, counts: TokenCounts, classifier: TokenKeeper | None = None) -> None:
        self._counts = counts
        self._classifier = classifier
        self.model_identity = "" if classifier is None else classifier.identity
        if classifier is not None:
            self.trained = "handed in"
            self.assumptions = (f"The token classifier is {classifier.said}.", *self.assumptions[1:])

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        budget, tokens = self._counts.share(BUDGET), self._counts.request(request)
        texts = compressible(read_history(request)) if tokens > budget else {}
        available = sum(self._counts.text(text) for text in texts.values())
        if not available:
            return Rewrite(request)
        rate = max(LOWEST_RATE, 1 - (tokens - budget) / available)
        shorter, read = self._compressed(texts, rate)
        changed = {ref: text for ref, text in shorter.items() if text != texts[ref]}
        return Rewrite(with_texts(request, changed), read)

    def _compressed(self, texts: dict[PartRef, str], rate: float) -> tuple[dict[PartRef, str], int]:
        """Return the texts without the words that score lowest, and the tokens that the classifier read."""
        words = {ref: _WORD.findall(text) for ref, text in texts.items()}
        every = [word for found in words.values() for word in found]
        scored = self._scored(words.values(), every)
        scores = np.array(scored.scores)
        threshold = np.quantile(scores, 1 - rate)
        stays = iter(
            score >= threshold or _FORCED.search(word) is not None for word, score in zip(every, scores, strict=True)
        )
        kept = {ref: [word for word in found if next(stays)] for ref, found in words.items()}
        return {ref: "".join(kept[ref]).rstrip() or words[ref][0].rstrip() for ref in texts}, scored.tokens

    def _scored(self, texts: Iterable[Sequence[str]], every: Sequence[str]) -> Scored:
        """Return the mean score of each word's sub-tokens; a supplied classifier reads each text separately."""
        if self._classifier is None:
            pieces = surprisal(self._counts.ids([word.rstrip() for word in every]))
            return Scored([float(np.mean(score)) if score else 0.0 for score in pieces])
        found = [self._classifier(words) for words in texts]
        return Scored([score for one in found for score in one.scores], sum(one.tokens for one in found))


def compressible(history: History) -> dict[PartRef, str]:
    """Return the results and assistant text of the complete Steps before Recent2 that consist of text only."""
    messages = history.request.messages
    refs = [
        ref
        for step in history.steps[: steps_before_recent(history)]
        if step.complete
        for block in step.blocks
        if not block.opaque
        for ref in block.parts
    ]
    parts = {ref: messages[ref.message].parts[ref.part] for ref in refs}
    return {ref: part.text for ref, part in parts.items() if isinstance(part, Text | Result) and part.text.strip()}
