"""A request's structure (paper, section 3.1): protected prefix, Steps, Blocks, and joint deletion D_A(C).

    C_t = prefix + Step 1 + ... + Step t-1;   Step = assistant_state + tool_exchange + tool_exchange + ...

User (or system) messages after the prefix belong to no Step and are never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from drsr.request.parts import Call, Message, Opaque, Part, PartRef, Result, is_reasoning, says_something
from drsr.request.protocol import Pairing, pair_calls
from drsr.request.request import Request

RECENT_STEPS = 2
"""Recent2: the latest complete Steps, which are never touched."""


class BlockKind(StrEnum):
    ASSISTANT_STATE = "assistant_state"
    """All text and reasoning of a Step."""
    TOOL_EXCHANGE = "tool_exchange"
    """One tool call with its result."""


@dataclass(frozen=True, slots=True)
class Block:
    """The unit of deletion."""

    step: int
    """Index of its Step."""
    component: int
    """Position in the Step: 0 is the assistant_state (reserved even if the Step has none), 1.. are the calls in
    order."""
    kind: BlockKind
    parts: tuple[PartRef, ...]
    """Parts of messages that are deleted with the Block."""
    opaque: bool
    """True when it holds anything but text; such a Block is never deleted."""
    pinned: bool = False
    """True if the consumer's `protect` predicate pinned it, or pinned the reasoning that led to it; such a Block is
    never deleted."""

    @property
    def name(self) -> str:
        """Short and readable, unique in a request: `3.0` is the assistant_state of Step 3, `3.1` its first exchange."""
        return f"{self.step}.{self.component}"


@dataclass(frozen=True, slots=True)
class Step:
    """One assistant message with the results of its calls."""

    index: int
    message: int
    """Index of the assistant message."""
    last_message: int
    """Index of the last message that holds one of its results; the assistant message itself if there are none."""
    blocks: tuple[Block, ...]
    complete: bool
    """False when a call is unanswered; such a Step is never touched."""


Protect = Callable[[Block, Request], bool]
"""A consumer's own rule: True pins the Block."""


@dataclass(frozen=True, slots=True)
class History:
    """A request taken apart."""

    request: Request
    prefix_length: int
    """The first messages, which are never touched: instructions, demonstrations and the task."""
    steps: tuple[Step, ...]
    substance: tuple[int, ...]
    """Number of parts of each message that carry more than reasoning; a message that loses all of them vanishes."""

    @property
    def recent(self) -> tuple[Step, ...]:
        """The latest complete Steps (Recent2)."""
        return tuple([step for step in self.steps if step.complete][-RECENT_STEPS:])

    @property
    def older(self) -> tuple[Step, ...]:
        """The complete Steps before Recent2, oldest first."""
        return tuple([step for step in self.steps if step.complete][:-RECENT_STEPS])


class Rewrite(NamedTuple):
    """A request after joint deletion."""

    request: Request
    kept: tuple[int, ...]
    """Index in the original of each message of `request`."""


class Removal(NamedTuple):
    """The messages and parts that a joint deletion removes, before anything is rewritten."""

    vanished: frozenset[int]
    """Messages that vanish because nothing is left of them."""
    parts: dict[int, set[int]]
    """The parts it removes from messages that stay, by message."""


def read_history(request: Request, protect: Protect | None = None) -> History:
    """Take a request apart. `protect` pins the Blocks that the consumer wants kept."""
    prefix_length = _prefix_length(request.messages)
    pairing = pair_calls(request)
    steps: list[Step] = []
    for index in range(prefix_length, len(request.messages)):
        if request.messages[index].role == "assistant":
            steps.append(_step(request, len(steps), index, pairing, protect))
    substance = tuple(sum(map(_carries, message.parts)) for message in request.messages)
    return History(request, prefix_length, tuple(steps), substance)


def removal(history: History, blocks: Iterable[Block]) -> Removal:
    """Return everything that is removed when these Blocks are deleted together."""
    removed: dict[int, set[int]] = {}
    for block in blocks:
        if block.step >= len(history.steps) or block not in history.steps[block.step].blocks:
            raise ValueError(f"Block {block.name} is of another request")
        if block.opaque or block.pinned or not history.steps[block.step].complete:
            raise ValueError(f"Block {block.name} is opaque, pinned or part of an incomplete Step")
        for ref in block.parts:
            removed.setdefault(ref.message, set()).add(ref.part)
    messages = history.request.messages
    vanished = frozenset(
        index
        for index, parts in removed.items()
        if sum(_carries(messages[index].parts[part]) for part in parts) == history.substance[index]
    )
    for index, parts in removed.items():
        _add_reasoning_left_behind(messages[index], parts)
    return Removal(vanished, {index: parts for index, parts in removed.items() if index not in vanished})


def delete(history: History, blocks: Iterable[Block]) -> Rewrite:
    """D_A(C): the request without these Blocks, all else in its original order. Deleting nothing is the identity."""
    return rewrite(history.request, removal(history, blocks))


def rewrite(request: Request, removed: Removal) -> Rewrite:
    """Carry out a removal."""
    kept = [index for index in range(len(request.messages)) if index not in removed.vanished]
    messages = [
        request.without_parts(index, removed.parts[index]) if index in removed.parts else request.messages[index]
        for index in kept
    ]
    return Rewrite(request.with_messages(messages), tuple(kept))


def _carries(part: Part) -> bool:
    """Return whether a message may consist of this part alone. Reasoning may not: providers refuse such a message."""
    return says_something(part) and not is_reasoning(part)


def _add_reasoning_left_behind(message: Message, removed: set[int]) -> None:
    """Reasoning at the end of what is left led to something that is gone, and providers refuse it there: it goes."""
    for number in range(len(message.parts) - 1, -1, -1):
        part = message.parts[number]
        if number in removed:
            continue
        if not is_reasoning(part):
            return
        if isinstance(part, Opaque) and len(part.place) == 1:
            continue  # a field of the message, which stands behind nothing
        removed.add(number)


def _prefix_length(messages: Sequence[Message]) -> int:
    """Return the length of the prefix: everything before the first assistant or tool message that is not a
    demonstration."""
    for index, message in enumerate(messages):
        if message.role in ("assistant", "tool") and not message.demonstration:
            return index
    return len(messages)


def _step(request: Request, step: int, index: int, pairing: Pairing, protect: Protect | None) -> Step:
    message = request.messages[index]
    blocks: list[Block] = []
    state = [number for number, part in enumerate(message.parts) if not isinstance(part, Call)]
    if not message.text_action and any(says_something(message.parts[number]) for number in state):
        refs = tuple(PartRef(index, number) for number in state)
        opaque = any(isinstance(message.parts[number], Opaque) for number in state)
        blocks.append(Block(step, 0, BlockKind.ASSISTANT_STATE, refs, opaque))
    calls = [number for number, part in enumerate(message.parts) if isinstance(part, Call)]
    complete = True
    last_message = index
    for component, number in enumerate(calls, start=1):
        call = PartRef(index, number)
        answer = pairing.result_of.get(call)
        if answer is None:
            complete = False
            blocks.append(Block(step, component, BlockKind.TOOL_EXCHANGE, (call,), opaque=False))
            continue
        last_message = max(last_message, answer.message)
        result = request.messages[answer.message].parts[answer.part]
        opaque = isinstance(result, Result) and result.opaque
        thought = [PartRef(index, other) for other in state] if message.text_action else []
        blocks.append(Block(step, component, BlockKind.TOOL_EXCHANGE, (call, *thought, answer), opaque))
    if protect is not None:
        pinned = [protect(block, request) for block in blocks]
        # Reasoning goes with the call it led to; to keep it, its calls are kept too.
        if blocks and blocks[0].kind is BlockKind.ASSISTANT_STATE and pinned[0] and _reasons(message, blocks[0]):
            pinned = [True] * len(blocks)
        blocks = [_pinned(block) if pin else block for block, pin in zip(blocks, pinned, strict=True)]
    return Step(step, index, last_message, tuple(blocks), complete)


def _reasons(message: Message, block: Block) -> bool:
    return any(is_reasoning(message.parts[ref.part]) for ref in block.parts)


def _pinned(block: Block) -> Block:
    return Block(block.step, block.component, block.kind, block.parts, block.opaque, pinned=True)
