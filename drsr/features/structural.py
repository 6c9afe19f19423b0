"""Structural controls: 58 columns from the request's text and structure, without any language model.

They are measured on the full request, although the backbone may see only a suffix of it. Word overlaps count distinct
words; each overlap is 0 if a side has no words. Cost is linear in the request's text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.decide.candidates import Candidate, DecisionState
from drsr.features.content import content_indicators
from drsr.features.layout import STRUCTURAL
from drsr.features.lexical import Passage, identifiers, quotient, read_passages, share, together, words_of
from drsr.features.occurrences import Mask, Numbers, Occurrences, number_items
from drsr.request.history import Block, BlockKind, removal
from drsr.request.parts import Call, Message, PartRef, Reasoning, Result, Text


class _Said(NamedTuple):
    """The words of a Block."""

    kind: BlockKind
    texts: tuple[str, ...]
    """One for each of its parts."""


class _Blocks(NamedTuple):
    """The words of all Blocks: one entry of `word` and `block` for every word that a Block has."""

    number: dict[tuple[int, int], int]
    """Number of a Block, by Step and component."""
    said: Counter[_Said]
    word: Numbers
    block: Numbers
    sizes: Numbers
    """For each Block its number of distinct words."""


@dataclass(frozen=True)
class _Request:
    """The parts of a request that all its candidates are compared with, read once."""

    state: DecisionState
    passages: dict[PartRef, Passage]
    words: Occurrences
    """Occurrences of each word; parts are numbered in the order of `passages`."""
    part: dict[PartRef, int]
    blocks: _Blocks
    calls: tuple[tuple[PartRef, Call], ...]
    """The calls of all Steps, in order."""
    recent_start: int
    """Index of the first message of Recent2: recent history is everything from there on."""
    task: frozenset[str]
    """The words of the user's messages in the prefix, without demonstrations."""
    recent: frozenset[str]
    last_message: frozenset[str]
    saving: int
    """Tokens saved by deleting all candidates together."""

    @cached_property
    def chosen(self) -> Numbers:
        """For each word how many parts of candidates hold it."""
        wanted = np.zeros(len(self.passages), dtype=np.bool_)
        for candidate in self.state.candidates:
            wanted[[self.part[ref] for ref in candidate.block.parts]] = True
        return self.words.holders_among(wanted)

    @cached_property
    def last_called(self) -> Numbers:
        """Return, for each word, the last part of a call that holds it; -1 if there is none."""
        wanted = np.zeros(len(self.passages), dtype=np.bool_)
        wanted[[self.part[ref] for ref, _ in self.calls]] = True
        return self.words.last_among(wanted)

    def first_part(self, message: int) -> int:
        """Return the number of the first part of a message, or of what follows the message if it has no parts."""
        return bisect_left(self._messages, message)

    @cached_property
    def _messages(self) -> list[int]:
        return [ref.message for ref in self.passages]


@dataclass(frozen=True, slots=True)
class _Subject:
    """One candidate and what it shares with the rest."""

    candidate: Candidate
    passage: Passage
    """The Block's whole text."""
    words: Numbers
    """Its distinct words by number, ascending."""
    inside: Numbers
    """Number of its own parts that hold each of these."""

    @property
    def block(self) -> Block:
        return self.candidate.block

    @property
    def tokens(self) -> int:
        return sum(len(span) for span in self.candidate.token_spans)

    def share(self, wanted: Mask) -> float:
        """Return the share of its distinct words that are wanted."""
        return quotient(int(wanted.sum()), len(self.words))


def structural_features(
    state: DecisionState, passages: dict[PartRef, Passage] | None = None, words: Occurrences | None = None
) -> NDArray[np.float64]:
    """Return one row per candidate, one column per name in `layout.STRUCTURAL`.

    `passages` is the result of `read_passages` for the request and `words` that of `number_items` for their words, if
    the caller has them already.
    """
    passages = read_passages(state.history.request) if passages is None else passages
    if words is None:
        words, _ = number_items(words_of(passage.text) for passage in passages.values())
    request = _read(state, passages, words)
    rows = []
    for candidate in state.candidates:
        subject = _subject(request, candidate)
        values = (
            _position(request, subject)
            | _type(request, subject)
            | _sizes(request, subject)
            | _overlaps(request, subject)
            | _tools(request, subject)
            | _redundancy(request, subject)
            | _content(request, subject)
            | _context(request)
        )
        rows.append([values[name] for name, _ in STRUCTURAL])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(STRUCTURAL))


def _read(state: DecisionState, passages: dict[PartRef, Passage], words: Occurrences) -> _Request:
    history = state.history
    messages = history.request.messages
    recent_start = history.recent[0].message if history.recent else len(messages)
    prompts = {index for index in range(history.prefix_length) if is_prompt(messages[index])}
    last = len(messages) - 1
    blocks = [candidate.block for candidate in state.candidates]

    def said(wanted: Iterable[PartRef]) -> frozenset[str]:
        return frozenset().union(*(passages[ref].distinct for ref in wanted))

    part = {ref: number for number, ref in enumerate(passages)}
    return _Request(
        state=state,
        passages=passages,
        words=words,
        part=part,
        blocks=_read_blocks(state, passages, words, part),
        calls=tuple(_calls(state, (block for step in history.steps for block in step.blocks))),
        recent_start=recent_start,
        task=said(ref for ref in passages if ref.message in prompts),
        recent=said(ref for ref in passages if ref.message >= recent_start),
        last_message=said(ref for ref in passages if ref.message == last),
        saving=state.rendering.direct_saving(removal(history, blocks)),
    )


def _read_blocks(
    state: DecisionState, passages: dict[PartRef, Passage], words: Occurrences, part: dict[PartRef, int]
) -> _Blocks:
    blocks = [block for step in state.history.steps for block in step.blocks]
    owner = np.full(len(passages), -1, dtype=np.int64)
    for number, block in enumerate(blocks):
        owner[[part[ref] for ref in block.parts]] = number
    word, block_number, _ = words.grouped(owner, len(blocks))
    return _Blocks(
        number={_key(block): number for number, block in enumerate(blocks)},
        said=Counter(_said(passages, block) for block in blocks),
        word=word,
        block=block_number,
        sizes=np.bincount(block_number, minlength=len(blocks)),
    )


def _said(passages: dict[PartRef, Passage], block: Block) -> _Said:
    return _Said(block.kind, tuple(passages[ref].text for ref in block.parts))


def _subject(request: _Request, candidate: Candidate) -> _Subject:
    passage = together(request.passages[ref] for ref in candidate.block.parts)
    words, inside = request.words.distinct([request.part[ref] for ref in candidate.block.parts])
    return _Subject(candidate, passage, words, inside)


def is_prompt(message: Message) -> bool:
    """Return whether it is something the user said; Anthropic's user messages also carry results."""
    said = any(isinstance(part, Text) and part.text for part in message.parts)
    return message.role == "user" and said and not message.demonstration


def _calls(state: DecisionState, blocks: Iterable[Block]) -> Iterable[tuple[PartRef, Call]]:
    for block in blocks:
        ref = block.parts[0]
        part = state.history.request.messages[ref.message].parts[ref.part]
        if isinstance(part, Call):
            yield ref, part


def _position(request: _Request, subject: _Subject) -> dict[str, float]:
    state, block = request.state, subject.block
    steps, length = len(state.history.steps), len(state.rendering)
    first, last = subject.candidate.token_spans[0].start, subject.candidate.token_spans[-1].stop - 1
    behind = state.history.request.messages[block.parts[-1].message + 1 :]
    return {
        "steps_before": log1p(block.step),
        "step_age": log1p(steps - 1 - block.step),  # Steps behind its own
        "step_position": block.step / max(steps - 1, 1),
        "token_position": first / length,
        "token_distance": log1p(state.rendering.pre_action_position - last),
        "user_messages_since": log1p(sum(map(is_prompt, behind))),
    }


def _type(request: _Request, subject: _Subject) -> dict[str, float]:
    block, passages = subject.block, request.passages
    siblings = len(request.state.history.steps[block.step].blocks)
    reasoning = sum(len(passages[ref].text) for ref in block.parts if isinstance(_part(request, ref), Reasoning))
    return {
        "is_assistant_state": float(block.kind is BlockKind.ASSISTANT_STATE),
        "component_index": float(block.component),
        "step_blocks": float(siblings),
        "is_only_block": float(siblings == 1),
        "reasoning_share": quotient(reasoning, sum(len(passages[ref].text) for ref in block.parts)),
    }


def _sizes(request: _Request, subject: _Subject) -> dict[str, float]:
    state, block, passages = request.state, subject.block, request.passages
    lengths = [len(passages[ref].text) for ref in block.parts]
    siblings = state.history.steps[block.step].blocks
    step_tokens = sum(len(span) for sibling in siblings for span in state.rendering.token_spans(sibling))
    saving = subject.candidate.direct_saving
    call = lengths[0] if block.kind is BlockKind.TOOL_EXCHANGE else 0
    return {
        "characters": log1p(sum(lengths)),
        "words": log1p(len(subject.passage.words)),
        "tokens": log1p(subject.tokens),
        "direct_saving": log1p(saving),
        "request_share": saving / len(state.rendering),
        "step_share": subject.tokens / step_tokens,
        "pool_share": saving / sum(candidate.direct_saving for candidate in state.candidates),
        "characters_per_token": sum(lengths) / subject.tokens,
        "call_share": quotient(call, sum(lengths)),
    }


def _overlaps(request: _Request, subject: _Subject) -> dict[str, float]:
    """Precision: how much of the Block the reference has. Recall: how much of the reference the Block has."""
    words, parts = subject.passage.distinct, subject.block.parts
    names = identifiers(words)
    introduced = request.words.first[subject.words] >= request.part[parts[0]]
    reused = request.words.last[subject.words] > request.part[parts[-1]]
    return {
        "task_precision": share(request.task, words),
        "task_recall": share(words, request.task),
        "recent_precision": share(request.recent, words),
        "recent_recall": share(words, request.recent),
        "last_message_precision": share(request.last_message, words),
        "last_message_recall": share(words, request.last_message),
        "identifiers_in_task": share(request.task, names),
        "identifiers_in_recent": share(request.recent, names),
        "introduced_share": subject.share(introduced),  # said here for the first time
        "introduced_reused": quotient(int((introduced & reused).sum()), int(introduced.sum())),  # and again behind it
    }


def _tools(request: _Request, subject: _Subject) -> dict[str, float]:
    """Return the columns about tools: an exchange uses the tool it calls, an assistant_state those that its Step
    calls."""
    block, own = subject.block, subject.block.parts[0]
    step = request.state.history.steps[block.step]
    mine = list(_calls(request.state, step.blocks if block.kind is BlockKind.ASSISTANT_STATE else (block,)))
    tools = {call.name for _, call in mine}
    same = [ref for ref, call in request.calls if call.name in tools]
    earlier = sum(ref.message < step.message for ref in same)
    following = sum(ref.message > step.message for ref in same)
    identical = []
    if block.kind is BlockKind.TOOL_EXCHANGE:
        identical = [ref for ref, call in request.calls if ref != own and _is_same(call, mine[0][1])]
    later = request.first_part(step.message + 1)
    return {
        "same_tool_before": log1p(earlier),
        "same_tool_after": log1p(following),
        "same_tool_share": quotient(len(same), len(request.calls)),
        "same_tool_recent": float(any(ref.message >= request.recent_start for ref in same)),
        "identical_call_before": float(any(ref < own for ref in identical)),
        "identical_call_after": float(any(ref > own for ref in identical)),
        "recent_arguments_recall": _called(request, subject, max(later, request.first_part(request.recent_start))),
        "later_arguments_recall": _called(request, subject, later),
    }


def _called(request: _Request, subject: _Subject, start: int) -> float:
    """Return the share of the distinct words in calls from part `start` on that the Block contains."""
    said = request.last_called >= start
    return quotient(int(said[subject.words].sum()), int(said.sum()))


def _redundancy(request: _Request, subject: _Subject) -> dict[str, float]:
    blocks, own = request.blocks, request.blocks.number[_key(subject.block)]
    mine = np.zeros(request.words.kinds, dtype=np.bool_)
    mine[subject.words] = True
    both = np.bincount(blocks.block[mine[blocks.word]], minlength=len(blocks.sizes))
    either = len(subject.words) + blocks.sizes - both
    near = both / np.maximum(either, 1)
    near[own] = 0.0  # not with itself
    candidates = [blocks.number[_key(candidate.block)] for candidate in request.state.candidates]
    outside = request.words.holders[subject.words] - subject.inside
    chosen = request.chosen[subject.words]
    stays = request.words.holders[subject.words] > chosen
    return {
        "nearest_candidate": float(near[candidates].max()),
        "nearest_block": float(near.max()),
        "covered_by_candidates": subject.share(chosen > subject.inside),
        "covered_by_retained": subject.share(stays),
        "unique_share": subject.share(outside == 0),
        "is_duplicate": float(blocks.said[_said(request.passages, subject.block)] > 1),
    }


def _content(request: _Request, subject: _Subject) -> dict[str, float]:
    parts = [_part(request, ref) for ref in subject.block.parts]
    empty = any(isinstance(part, Result) and not part.text.strip() for part in parts)
    return content_indicators(subject.passage) | {"is_empty_result": float(empty)}


def _context(request: _Request) -> dict[str, float]:
    state = request.state
    length = len(state.rendering)
    return {
        "request_tokens": log1p(length),
        "request_steps": log1p(len(state.history.steps)),
        "pool_size": float(len(state.candidates)),
        "pool_saving_share": request.saving / length,
        "view_share": len(state.view.token_ids(state.rendering.token_ids)) / length,
        "ends_with_user": float(is_prompt(state.history.request.messages[-1])),
    }


def _key(block: Block) -> tuple[int, int]:
    return block.step, block.component


def _part(request: _Request, ref: PartRef) -> object:
    return request.state.history.request.messages[ref.message].parts[ref.part]


def _is_same(one: Call, other: Call) -> bool:
    return one.name == other.name and one.arguments == other.arguments
