"""A request read once: its parts in order, who wrote each, their words, paths and shingles as numbers, its calls.

What all candidates of a decision are compared with. Cost is linear in the request's text but for sorting numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from drsr.decide.candidates import DecisionState
from drsr.features.content import is_error, paths_in
from drsr.features.lexical import Passage
from drsr.features.light.calls import Doing, doing_of, object_of
from drsr.features.light.columns import SHINGLE
from drsr.features.occurrences import Mask, Numbers, Occurrences, number_items, numbered_anew
from drsr.features.structural import is_prompt
from drsr.request.history import Block, BlockKind
from drsr.request.parts import Call, PartRef, Result

_BITS = 21
"""Bits of a word's number in a shingle: shingles are exact up to two million distinct words."""
_ERROR_AMONG = 40
"""Number of first words of a result that are searched for a sign of an error."""
_ERROR_WORDS = 8
"""Number of words from there on, without numbers and identifiers, that identify the error."""


class CallFacts(NamedTuple):
    """One call of a Step, in the order of all calls."""

    number: int
    """Its place in that order."""
    step: int
    block: int
    """Number of its Block."""
    tool: str
    object: str
    doing: Doing
    call: int
    """Number of its part."""
    result: int | None
    """Number of its result's part; None if it has no result."""
    error: tuple[int, ...] | None
    """The words that identify the error its result reports; None if it reports none."""


@dataclass(frozen=True)
class RequestIndex:
    """Everything in the order of the request; parts, Blocks and calls go by number."""

    state: DecisionState
    passages: tuple[Passage, ...]
    """One per part."""
    number_of: dict[PartRef, int]
    words: Occurrences
    vocabulary: tuple[str, ...]
    """Each word once: its place is its number."""
    paths: Occurrences
    shingles: Occurrences
    message: Numbers
    """For each part the index of its message."""
    blocks: tuple[Block, ...]
    block_of_part: Numbers
    """Number of the Block of each part; -1 if it belongs to none."""
    agent: Mask
    """True for each part that the agent wrote: it is in the assistant message of a Step and is not a result."""
    is_identifier: Mask
    """For each word."""
    is_number: Mask
    calls: tuple[CallFacts, ...]

    @cached_property
    def recent_start(self) -> int:
        """The first part of Recent2."""
        recent = self.state.history.recent
        return self.first_part(recent[0].message) if recent else len(self.passages)

    @cached_property
    def chosen(self) -> Mask:
        """For each part whether it belongs to a candidate."""
        chosen = np.zeros(len(self.passages), dtype=np.bool_)
        for candidate in self.state.candidates:
            chosen[self.parts_of(candidate.block)] = True
        return chosen

    @cached_property
    def task(self) -> list[int]:
        """The parts of what the user asks for in the prefix."""
        history = self.state.history
        messages = history.request.messages
        prompts = {index for index in range(history.prefix_length) if is_prompt(messages[index])}
        return [number for ref, number in self.number_of.items() if ref.message in prompts]

    @cached_property
    def last_user(self) -> list[int]:
        """Return the parts of the user's last message; empty if there is none."""
        messages = self.state.history.request.messages
        found = next((index for index in range(len(messages) - 1, -1, -1) if is_prompt(messages[index])), None)
        return [] if found is None else self.parts_in(found)

    @cached_property
    def last_result(self) -> int | None:
        """The last part that is a result."""
        messages = self.state.history.request.messages
        refs = (ref for ref in reversed(self.number_of) if ref.message >= 0)
        return next(
            (self.number_of[ref] for ref in refs if isinstance(messages[ref.message].parts[ref.part], Result)), None
        )

    def parts_of(self, block: Block) -> list[int]:
        """Return the numbers of a Block's parts."""
        return [self.number_of[ref] for ref in block.parts]

    def parts_in(self, message: int) -> list[int]:
        """Return the numbers of a message's parts."""
        return list(range(self.first_part(message), self.first_part(message + 1)))

    def said_in(self, step: int) -> list[int]:
        """Return what the agent wrote in a Step."""
        parts = self.parts_in(self.state.history.steps[step].message)
        return [part for part in parts if self.agent[part]]

    def first_part(self, message: int) -> int:
        """Return the number of the first part of a message, or of what follows the message if it has no parts."""
        return int(np.searchsorted(self.message, message))


def read_index(
    state: DecisionState, passages: dict[PartRef, Passage], numbered: tuple[Occurrences, dict[str, int]]
) -> RequestIndex:
    """Read a request; `passages` are its parts, read with sorted keys, `numbered` their words by number."""
    number_of = {ref: number for number, ref in enumerate(passages)}
    listed = tuple(passages.values())
    words, numbers = numbered
    vocabulary = tuple(numbers)
    is_number, is_identifier = _kinds(vocabulary)
    history = state.history
    blocks = tuple(block for step in history.steps for block in step.blocks)
    block_of_part = np.full(len(listed), -1, dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of_part[[number_of[ref] for ref in block.parts]] = number
    steps = {step.message for step in history.steps}
    messages = history.request.messages
    agent = [
        ref.message in steps and not isinstance(messages[ref.message].parts[ref.part], Result) for ref in number_of
    ]
    return RequestIndex(
        state=state,
        passages=listed,
        number_of=number_of,
        words=words,
        vocabulary=vocabulary,
        paths=_paths(listed),
        shingles=shingled(words),
        message=np.array([ref.message for ref in number_of], dtype=np.int64),
        blocks=blocks,
        block_of_part=block_of_part,
        agent=np.array(agent, dtype=np.bool_),
        is_identifier=is_identifier,
        is_number=is_number,
        calls=tuple(_calls(state, blocks, number_of, words, vocabulary)),
    )


def shingled(words: Occurrences) -> Occurrences:
    """Return every `SHINGLE` words in a row inside one part, numbered."""
    count = max(len(words.items) - SHINGLE + 1, 0)
    keys = np.zeros(count, dtype=np.int64)
    for place in range(SHINGLE):
        keys = (keys << _BITS) | (words.items[place : place + count] & ((1 << _BITS) - 1))
    parts = words.parts[:count]
    whole = parts == words.parts[len(words.parts) - count :]
    items, kinds = numbered_anew(keys[whole])
    return Occurrences(items, parts[whole], kinds, words.part_count)


def _paths(passages: Iterable[Passage]) -> Occurrences:
    """Without what ends a sentence or introduces an explanation."""
    return number_items([[path.rstrip(".:") for path in paths_in(passage.text)] for passage in passages])[0]


def _kinds(vocabulary: Iterable[str]) -> tuple[Mask, Mask]:
    """Return, for each word, whether it is a number of at least two digits, and whether it is an identifier: a longer
    word with a digit or an underscore."""
    numbers, identifiers = [], []
    for word in vocabulary:
        plain = word.isalpha()
        decimal = not plain and word.isdecimal()
        numbers.append(decimal and len(word) >= 2)
        identifiers.append(not plain and not decimal and len(word) >= 3)
    return np.array(numbers, dtype=np.bool_), np.array(identifiers, dtype=np.bool_)


def _calls(
    state: DecisionState,
    blocks: Iterable[Block],
    number_of: dict[PartRef, int],
    words: Occurrences,
    vocabulary: tuple[str, ...],
) -> Iterable[CallFacts]:
    messages = state.history.request.messages
    errors = _Errors(words, vocabulary)
    count = 0
    for number, block in enumerate(blocks):
        if block.kind is not BlockKind.TOOL_EXCHANGE:
            continue
        call = messages[block.parts[0].message].parts[block.parts[0].part]
        assert isinstance(call, Call)  # an exchange begins with its call
        result = number_of[block.parts[1]] if len(block.parts) > 1 else None
        yield CallFacts(
            number=count,
            step=block.step,
            block=number,
            tool=call.name,
            object=object_of(call),
            doing=doing_of(call),
            call=number_of[block.parts[0]],
            result=result,
            error=None if result is None else errors.reported_by(result),
        )
        count += 1


class _Errors:
    """The words of a request that speak of errors."""

    def __init__(self, words: Occurrences, vocabulary: tuple[str, ...]) -> None:
        speaks_of_error = np.fromiter(map(is_error, vocabulary), dtype=np.bool_, count=len(vocabulary))
        self._names = np.fromiter(map(str.isalpha, vocabulary), dtype=np.bool_, count=len(vocabulary))
        self._items = words.items
        self._bounds: list[int] = words.bounds.tolist()
        self._places: list[int] = np.flatnonzero(speaks_of_error[words.items]).tolist()

    def reported_by(self, part: int) -> tuple[int, ...] | None:
        """Return the words that identify the error that a part reports among its first words; None if it reports
        none."""
        start, end = self._bounds[part : part + 2]
        number = bisect_left(self._places, start)
        if number == len(self._places) or self._places[number] >= min(start + _ERROR_AMONG, end):
            return None
        place = self._places[number]
        tail = self._items[place : min(place + 2 * _ERROR_WORDS, end)]
        return tuple(tail[self._names[tail]][:_ERROR_WORDS].tolist())
