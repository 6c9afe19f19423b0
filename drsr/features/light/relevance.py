"""Columns about how a Block's words weigh: BM25 over the request's own Blocks, and overlap weighted by rarity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drsr.features.lexical import quotient
from drsr.features.light.columns import BM25_B, BM25_K1
from drsr.features.light.holdings import Holdings
from drsr.features.light.index import RequestIndex
from drsr.request.history import Block

Weights = NDArray[np.float64]


class BlockRelevance:
    """Scores all Blocks of a request for a query at once."""

    def __init__(self, index: RequestIndex) -> None:
        self._words = index.words
        self._blocks = len(index.blocks)
        block = index.block_of_part[index.words.parts]
        inside = block >= 0
        self._word, self._block, counts = index.words.grouped(index.block_of_part, self._blocks)
        lengths = np.bincount(block[inside], minlength=self._blocks)
        frequency = np.bincount(self._word, minlength=index.words.kinds)
        self.rarity: Weights = np.log1p((self._blocks - frequency + 0.5) / (frequency + 0.5))
        """For each word its inverse document frequency; Blocks are the documents."""
        mean = lengths.mean() if lengths.sum() else 1.0
        saturation = counts + BM25_K1 * (1 - BM25_B + BM25_B * lengths[self._block] / mean)
        self._weight = self.rarity[self._word] * counts * (BM25_K1 + 1) / saturation

    def scores(self, query: Sequence[int]) -> Weights:
        """Return, for each Block, its BM25 for the distinct words of these parts, per query word."""
        wanted = self._words.mask(query)
        found = wanted[self._word]
        scores = np.bincount(self._block[found], weights=self._weight[found], minlength=self._blocks)
        return scores / max(int(wanted.sum()), 1)


class Relevance:
    """The texts that all candidates of a request are compared with."""

    def __init__(self, holdings: Holdings) -> None:
        index = holdings.index
        self._holdings = holdings
        self._scored = BlockRelevance(index)
        recent = list(range(index.recent_start, len(index.passages)))
        queries = {
            "bm25_task": index.task,
            "bm25_last_user": index.last_user,
            "bm25_recent": recent,
            "bm25_last_step": holdings.last_step,
            "bm25_last_result": [] if index.last_result is None else [index.last_result],
        }
        self._scores = {name: self._scored.scores(query) for name, query in queries.items()}
        older = {step.index for step in index.state.history.older}
        self._older = np.array([block.step in older for block in index.blocks], dtype=np.bool_)

    def columns(self, block: Block) -> dict[str, float]:
        """Return the columns of one candidate."""
        index = self._holdings.index
        number = int(index.block_of_part[index.parts_of(block)[0]])
        found = {name: float(scores[number]) for name, scores in self._scores.items()}
        for name in ("bm25_recent", "bm25_last_step"):
            found[f"{name}_rank"] = self._rank(self._scores[name], number)
        return found | self._weighted(block)

    def _rank(self, scores: Weights, number: int) -> float:
        """Return the share of the other Blocks older than Recent2 that have a lower score."""
        others = int(self._older.sum()) - 1
        return quotient(int((scores[self._older] < scores[number]).sum()), others)

    def _weighted(self, block: Block) -> dict[str, float]:
        index, words = self._holdings.index, self._holdings.words
        own, _ = words.occurrences.distinct(index.parts_of(block))
        rarity = self._scored.rarity[own]
        total = float(rarity.sum())
        recent = float(rarity[words.occurrences.last[own] >= index.recent_start].sum())
        stays = float(rarity[words.among_staying[own] > 0].sum())
        return {
            "rarity": total / len(own) if len(own) else 0.0,
            "rarity_recent": recent / total if total else 0.0,
            "rarity_stays": stays / total if total else 0.0,
        }
