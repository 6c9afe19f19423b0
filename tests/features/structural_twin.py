"""The structural columns that count words, by plain sets: the slow, obvious twin of `drsr/features/structural.py`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from drsr.decide.candidates import Candidate, DecisionState
from drsr.features.lexical import Passage, quotient, read_passages, share
from drsr.request.history import Block
from drsr.request.parts import Call, PartRef

Words = frozenset[str]
Passages = dict[PartRef, Passage]


def word_columns(state: DecisionState) -> list[dict[str, float]]:
    """Return the columns of each candidate that the product computes from numbered words."""
    return [_columns(state, read_passages(state.history.request), candidate) for candidate in state.candidates]


def _columns(state: DecisionState, passages: Passages, candidate: Candidate) -> dict[str, float]:
    block, words_of = candidate.block, partial(_words, passages)
    words, rest = words_of(block.parts), passages.keys() - set(block.parts)
    chosen = {ref for other in state.candidates for ref in other.block.parts}
    introduced = words - words_of(ref for ref in rest if ref < block.parts[0])
    recent, step = state.history.recent, state.history.steps[block.step]
    recent_start = recent[0].message if recent else len(state.history.request.messages)
    later_calls = [ref for ref in _calls(state) if ref.message > step.message]
    recent_calls = [ref for ref in later_calls if ref.message >= recent_start]
    others = [other for each in state.history.steps for other in each.blocks if other != block]
    near = {other: _jaccard(words, words_of(other.parts)) for other in others}
    return {
        "introduced_share": share(introduced, words),
        "introduced_reused": share(words_of(ref for ref in rest if ref > block.parts[-1]), introduced),
        "recent_arguments_recall": share(words, words_of(recent_calls)),
        "later_arguments_recall": share(words, words_of(later_calls)),
        "nearest_candidate": max((near[one.block] for one in state.candidates if one.block != block), default=0.0),
        "nearest_block": max(near.values(), default=0.0),
        "covered_by_candidates": share(words_of(rest & chosen), words),
        "covered_by_retained": share(words_of(rest - chosen), words),
        "unique_share": share(words - words_of(rest), words),
        "is_duplicate": float(_said(passages, block) in [_said(passages, other) for other in others]),
    }


def _words(passages: Passages, parts: Iterable[PartRef]) -> Words:
    return Words().union(*(passages[ref].distinct for ref in parts))


def _calls(state: DecisionState) -> Iterable[PartRef]:
    messages = state.history.request.messages
    refs = (ref for step in state.history.steps for block in step.blocks for ref in block.parts)
    return (ref for ref in refs if isinstance(messages[ref.message].parts[ref.part], Call))


def _said(passages: Passages, block: Block) -> tuple[object, ...]:
    return block.kind, *(passages[ref].text for ref in block.parts)


def _jaccard(one: Words, other: Words) -> float:
    return quotient(len(one & other), len(one | other))
