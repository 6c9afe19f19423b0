"""Columns about what a Block holds: entities, words and shingles, who used them later, and what still holds them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log1p

import numpy as np

from drsr.features.lexical import quotient
from drsr.features.light.index import RequestIndex
from drsr.features.occurrences import Mask, Numbers, Occurrences
from drsr.request.history import Block


class Held:
    """Items of one kind (words, paths or shingles), and their positions in the request."""

    def __init__(self, index: RequestIndex, occurrences: Occurrences) -> None:
        self._index = index
        self.occurrences = occurrences

    @cached_property
    def last_said(self) -> Numbers:
        """Return, for each item, the agent's last part that contains it; -1 without one."""
        return self.occurrences.last_among(self._index.agent)

    @cached_property
    def among_sources(self) -> Numbers:
        """For each item how many parts hold it that the agent did not write."""
        return self.occurrences.holders_among(~self._index.agent)

    @cached_property
    def among_staying(self) -> Numbers:
        """For each item how many parts hold it that stay whichever candidates are deleted."""
        return self.occurrences.holders_among(~self._index.chosen)


@dataclass(frozen=True)
class Holdings:
    """The items that all candidates of a request are compared with."""

    index: RequestIndex
    words: Held
    paths: Held
    shingles: Held

    @cached_property
    def last_step(self) -> list[int]:
        """Return the text that the agent wrote in its last Step."""
        return self.index.said_in(len(self.index.state.history.steps) - 1)

    @cached_property
    def last_calls(self) -> Mask:
        """Return, for each word, whether a call of the last Step with calls contains it."""
        calls = self.index.calls
        last = calls[-1].step if calls else -1
        return self.words.occurrences.mask([call.call for call in calls if call.step == last])

    @cached_property
    def before_last_step(self) -> Numbers:
        """For each shingle how many parts before the last Step hold it."""
        first = self.index.first_part(self.index.state.history.steps[-1].message)
        before = np.arange(len(self.index.passages)) < first
        return self.shingles.occurrences.holders_among(before)

    @cached_property
    def last_step_shingles(self) -> Mask:
        return self.shingles.occurrences.mask(self.last_step)


def read_holdings(index: RequestIndex) -> Holdings:
    return Holdings(index, Held(index, index.words), Held(index, index.paths), Held(index, index.shingles))


def holding_columns(holdings: Holdings, block: Block) -> dict[str, float]:
    """Return the columns about entities, shingles, age and what the agent's Steps took from the Block."""
    return (
        _entities(holdings, block) | _shingles(holdings, block) | _age(holdings.index, block) | _taken(holdings, block)
    )


@dataclass(frozen=True)
class _Entities:
    """The entities of one kind that a Block holds; one entry of each array per entity."""

    unique: Mask
    """Nothing else in the request holds it."""
    lost: Mask
    """Nothing that stays holds it."""
    used: Mask
    """The agent used it in a later Step."""
    used_recently: Mask
    source: Mask
    """True for each used item that no part but the Block, and the agent, contains."""
    introduced: Mask
    """It is said first in the Block."""
    last_said: Numbers
    """The agent's last part that contains the item."""

    def __len__(self) -> int:
        return len(self.unique)

    def share(self, mask: Mask) -> float:
        return quotient(int(mask.sum()), len(self))


def _entities_of(holdings: Holdings, block: Block, held: Held, wanted: Mask | None) -> _Entities:
    index, parts = holdings.index, holdings.index.parts_of(block)
    own, inside = held.occurrences.distinct(parts)
    if wanted is not None:
        inside = inside[wanted[own]]
        own = own[wanted[own]]
    behind = index.first_part(index.state.history.steps[block.step].message + 1)
    last_said = held.last_said[own]
    used = last_said >= behind
    sources_inside = _sources_inside(index, held.occurrences, parts, own)
    return _Entities(
        unique=held.occurrences.holders[own] == inside,
        lost=held.among_staying[own] == 0,
        used=used,
        used_recently=last_said >= index.recent_start,
        source=used & (held.among_sources[own] == sources_inside) & (sources_inside > 0),
        introduced=_is_among(held.occurrences.first[own], parts),
        last_said=last_said,
    )


def _is_among(numbers: Numbers, few: list[int]) -> Mask:
    found = np.zeros(len(numbers), dtype=np.bool_)
    for one in few:
        found |= numbers == one
    return found


def _sources_inside(index: RequestIndex, occurrences: Occurrences, parts: list[int], own: Numbers) -> Numbers:
    """Count, for each of a Block's items, its parts that contain the item and were not written by the agent: its
    result, or none."""
    results = [part for part in parts if not index.agent[part]]
    if not results:
        return np.zeros(len(own), dtype=np.int64)
    found = np.zeros(occurrences.kinds, dtype=np.int64)
    items, holders = occurrences.distinct(results)
    found[items] = holders
    return found[own]


def _entities(holdings: Holdings, block: Block) -> dict[str, float]:
    index = holdings.index
    identifiers = _entities_of(holdings, block, holdings.words, index.is_identifier)
    numbers = _entities_of(holdings, block, holdings.words, index.is_number)
    paths = _entities_of(holdings, block, holdings.paths, None)
    kinds = (identifiers, numbers, paths)
    total = sum(map(len, kinds))
    taken = [kind.last_said[kind.introduced & kind.used] for kind in kinds]
    return {
        "identifiers": log1p(len(identifiers)),
        "numbers": log1p(len(numbers)),
        "paths": log1p(len(paths)),
        "identifiers_used": identifiers.share(identifiers.used),
        "numbers_used": numbers.share(numbers.used),
        "paths_used": paths.share(paths.used),
        "identifiers_unique": identifiers.share(identifiers.unique),
        "numbers_unique": numbers.share(numbers.unique),
        "paths_unique": paths.share(paths.unique),
        "entities_unique": log1p(sum(int(kind.unique.sum()) for kind in kinds)),
        "entities_lost": log1p(sum(int(kind.lost.sum()) for kind in kinds)),
        "entities_used_recently": quotient(sum(int(kind.used_recently.sum()) for kind in kinds), total),
        "source_of_used": log1p(sum(int(kind.source.sum()) for kind in kinds)),
        "introduced_used": log1p(sum(map(len, taken))),
        "last_use_age": _last_use_age(index, block, taken),
    }


def _last_use_age(index: RequestIndex, block: Block, taken: list[Numbers]) -> float:
    """Return the log of the number of Steps since the agent last mentioned something that the Block introduced."""
    steps = index.state.history.steps
    last = max((int(said.max()) for said in taken if len(said)), default=-1)
    if last < 0:
        return log1p(len(steps) - 1 - block.step)
    message = int(index.message[last])
    return log1p(sum(step.message > message for step in steps[block.step :]))


def _shingles(holdings: Holdings, block: Block) -> dict[str, float]:
    index, held = holdings.index, holdings.shingles
    parts = index.parts_of(block)
    own, inside = held.occurrences.distinct(parts)
    last, staying = held.occurrences.last[own], held.among_staying[own]
    chosen = held.occurrences.holders[own] - staying
    of_last_step = holdings.last_step_shingles[own]
    total = int(holdings.last_step_shingles.sum())
    return {
        "shingles_stay": quotient(int((staying > 0).sum()), len(own)),
        "shingles_after": quotient(int((last > parts[-1]).sum()), len(own)),
        "shingles_recent": quotient(int((last >= index.recent_start).sum()), len(own)),
        "shingles_candidates": quotient(int((chosen > inside).sum()), len(own)),
        "recent_shingles_here": quotient(int(of_last_step.sum()), total),
        "recent_shingles_lost": quotient(int((of_last_step & (holdings.before_last_step[own] == inside)).sum()), total),
    }


def _age(index: RequestIndex, block: Block) -> dict[str, float]:
    rendering = index.state.rendering
    last = rendering.token_spans(block)[-1].stop
    behind = index.first_part(index.state.history.steps[block.step].message + 1)
    later = np.flatnonzero(index.agent[behind:]) + behind
    return {
        "calls_before": log1p(sum(call.step < block.step for call in index.calls)),
        "calls_after": log1p(sum(call.step > block.step for call in index.calls)),
        "words_after": log1p(int(index.words.lengths[later].sum())),
        "tokens_after_share": (len(rendering) - last) / len(rendering),
    }


def _taken(holdings: Holdings, block: Block) -> dict[str, float]:
    """Return what the agent's next Step and its last call have from the Block."""
    index, words = holdings.index, holdings.words.occurrences
    parts = index.parts_of(block)
    own, _ = words.distinct(parts)
    following = words.mask(index.said_in(block.step + 1) if block.step + 1 < len(index.state.history.steps) else [])
    in_next, in_last = following[own], holdings.last_calls[own]
    elsewhere = holdings.words.among_sources[own] - _sources_inside(index, words, parts, own)
    return {
        "next_step_from_it": quotient(int(in_next.sum()), int(following.sum())),
        "next_step_from_it_alone": quotient(
            int((in_next & (words.first[own] >= parts[0])).sum()), int(following.sum())
        ),
        "last_call_from_it": quotient(int(in_last.sum()), int(holdings.last_calls.sum())),
        "last_call_from_it_alone": quotient(int((in_last & (elsewhere == 0)).sum()), int(holdings.last_calls.sum())),
    }
