"""The structural columns by plain sets of words: the slow, obvious twin of `drsr/features/structural.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.decide.candidates import Candidate, DecisionState
from drsr.features.content import content_indicators
from drsr.features.layout import STRUCTURAL
from drsr.features.lexical import Passage, identifiers, quotient, read_passages, share, together
from drsr.request.history import Block, BlockKind, removal
from drsr.request.parts import Call, Message, PartRef, Reasoning, Result, Text


class _Said(NamedTuple):
    """What a Block says."""

    kind: BlockKind
    texts: tuple[str, ...]
    """One for each of its parts."""
    distinct: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Request:
    """What all candidates of a request are compared with, read once."""

    state: DecisionState
    passages: dict[PartRef, Passage]
    blocks: dict[tuple[int, int], _Said]
    """All Blocks, by Step and component."""
    calls: tuple[tuple[PartRef, Call], ...]
    """The calls of all Steps, in order."""
    recent_start: int
    """Index of the first message of Recent2: recent history is everything from there on."""
    task: frozenset[str]
    """The words of the user's messages in the prefix, without demonstrations."""
    recent: frozenset[str]
    last_message: frozenset[str]
    chosen: frozenset[PartRef]
    """The parts of all candidates."""
    saving: int
    """Tokens saved by deleting all candidates together."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """One candidate and what it shares with the rest."""

    candidate: Candidate
    passage: Passage
    """All that it says."""
    shared: dict[PartRef, frozenset[str]]
    """For every part outside of it the words that it has too."""

    @property
    def block(self) -> Block:
        return self.candidate.block

    @property
    def tokens(self) -> int:
        return sum(len(span) for span in self.candidate.token_spans)

    def shared_with(self, parts: Iterable[PartRef]) -> frozenset[str]:
        """Its words that occur in any of these parts."""
        return frozenset().union(*(self.shared[ref] for ref in parts if ref in self.shared))


def structural_features(state: DecisionState) -> NDArray[np.float64]:
    """One row per candidate, one column per name in `layout.STRUCTURAL`."""
    request = _read(state)
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


def _read(state: DecisionState) -> _Request:
    history = state.history
    messages = history.request.messages
    passages = read_passages(history.request)
    recent_start = history.recent[0].message if history.recent else len(messages)
    prompts = {index for index in range(history.prefix_length) if _is_prompt(messages[index])}
    last = len(messages) - 1
    blocks = [candidate.block for candidate in state.candidates]

    def words(wanted: Iterable[PartRef]) -> frozenset[str]:
        return frozenset().union(*(passages[ref].distinct for ref in wanted))

    return _Request(
        state=state,
        passages=passages,
        blocks={
            _key(block): _Said(block.kind, tuple(passages[ref].text for ref in block.parts), words(block.parts))
            for step in history.steps
            for block in step.blocks
        },
        calls=tuple(_calls(state, (block for step in history.steps for block in step.blocks))),
        recent_start=recent_start,
        task=words(ref for ref in passages if ref.message in prompts),
        recent=words(ref for ref in passages if ref.message >= recent_start),
        last_message=words(ref for ref in passages if ref.message == last),
        chosen=frozenset(ref for block in blocks for ref in block.parts),
        saving=state.rendering.direct_saving(removal(history, blocks)),
    )


def _subject(request: _Request, candidate: Candidate) -> _Subject:
    own = set(candidate.block.parts)
    passage = together(request.passages[ref] for ref in candidate.block.parts)
    shared = {ref: passage.distinct & other.distinct for ref, other in request.passages.items() if ref not in own}
    return _Subject(candidate, passage, shared)


def _is_prompt(message: Message) -> bool:
    """Something the user said; Anthropic's user messages also carry results."""
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
        "user_messages_since": log1p(sum(map(_is_prompt, behind))),
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
    before = subject.shared_with(ref for ref in subject.shared if ref < parts[0])
    after = subject.shared_with(ref for ref in subject.shared if ref > parts[-1])
    introduced = words - before
    return {
        "task_precision": share(request.task, words),
        "task_recall": share(words, request.task),
        "recent_precision": share(request.recent, words),
        "recent_recall": share(words, request.recent),
        "last_message_precision": share(request.last_message, words),
        "last_message_recall": share(words, request.last_message),
        "identifiers_in_task": share(request.task, names),
        "identifiers_in_recent": share(request.recent, names),
        "introduced_share": share(introduced, words),  # said here for the first time
        "introduced_reused": share(after, introduced),  # and said again behind it
    }


def _tools(request: _Request, subject: _Subject) -> dict[str, float]:
    """An exchange uses the tool it calls, an assistant_state those that its Step calls."""
    block, own = subject.block, subject.block.parts[0]
    step = request.state.history.steps[block.step]
    mine = list(_calls(request.state, step.blocks if block.kind is BlockKind.ASSISTANT_STATE else (block,)))
    tools = {call.name for _, call in mine}
    same = [ref for ref, call in request.calls if call.name in tools]
    earlier = sum(ref.message < step.message for ref in same)
    later = sum(ref.message > step.message for ref in same)
    identical = []
    if block.kind is BlockKind.TOOL_EXCHANGE:
        identical = [ref for ref, call in request.calls if ref != own and _is_same(call, mine[0][1])]
    passages, words = request.passages, subject.passage.distinct
    later_calls = [ref for ref, _ in request.calls if ref.message > step.message]
    later_words = frozenset().union(*(passages[ref].distinct for ref in later_calls))
    recent_calls = [ref for ref in later_calls if ref.message >= request.recent_start]
    recent_words = frozenset().union(*(passages[ref].distinct for ref in recent_calls))
    return {
        "same_tool_before": log1p(earlier),
        "same_tool_after": log1p(later),
        "same_tool_share": quotient(len(same), len(request.calls)),
        "same_tool_recent": float(any(ref.message >= request.recent_start for ref in same)),
        "identical_call_before": float(any(ref < own for ref in identical)),
        "identical_call_after": float(any(ref > own for ref in identical)),
        "recent_arguments_recall": share(words, recent_words),
        "later_arguments_recall": share(words, later_words),
    }


def _redundancy(request: _Request, subject: _Subject) -> dict[str, float]:
    words, own = subject.passage.distinct, _key(subject.block)
    near: dict[tuple[int, int], float] = {}
    duplicate = False
    for key, said in request.blocks.items():
        if key != own:
            near[key] = jaccard(words, said.distinct, len(words & said.distinct))
            duplicate = duplicate or said == request.blocks[own]
    candidates = (_key(candidate.block) for candidate in request.state.candidates)
    return {
        "nearest_candidate": max((near[key] for key in candidates if key in near), default=0.0),
        "nearest_block": max(near.values(), default=0.0),
        "covered_by_candidates": share(subject.shared_with(request.chosen), words),
        "covered_by_retained": share(subject.shared_with(subject.shared.keys() - request.chosen), words),
        "unique_share": share(words - subject.shared_with(subject.shared), words),
        "is_duplicate": float(duplicate),
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
        "ends_with_user": float(_is_prompt(state.history.request.messages[-1])),
    }


def _key(block: Block) -> tuple[int, int]:
    return block.step, block.component


def _part(request: _Request, ref: PartRef) -> object:
    return request.state.history.request.messages[ref.message].parts[ref.part]


def _is_same(one: Call, other: Call) -> bool:
    return one.name == other.name and one.arguments == other.arguments


def jaccard(one: frozenset[str], other: frozenset[str], both: int) -> float:
    """Words in both, of which there are `both`, by words in either."""
    return quotient(both, len(one) + len(other) - both)
