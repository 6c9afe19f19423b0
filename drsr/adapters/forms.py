"""Forms: a framework's own objects as a request that drsr reads, and a decision carried back to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from drsr.policy.answer import Decision
from drsr.request.history import Block, Protect, removal
from drsr.request.parts import Place
from drsr.request.request import Request

T_co = TypeVar("T_co", covariant=True)


Pins = frozenset[tuple[int, int]]
"""Blocks, each by the index of its message and its component."""


def pinning(pins: Pins, also: Protect | None) -> Protect | None:
    """Pins these Blocks, and what `also` pins."""
    if not pins:
        return also

    def protect(block: Block, request: Request) -> bool:
        pinned = (block.parts[0].message, block.component) in pins
        return pinned or (also is not None and also(block, request))

    return protect


class Gone(NamedTuple):
    """The parts removed from one assistant message that stays."""

    text: bool
    reasoning: bool
    calls: frozenset[int]
    """By their place in `tool_calls`."""


class Removed(NamedTuple):
    """The parts and messages that a decision removes from a request."""

    messages: frozenset[int]
    """The messages that are gone, by their index in the request."""
    places: Mapping[int, frozenset[Place]]
    """Of messages that stay, what is gone: `("tool_calls", 0)`, `("content",)`, ..."""
    left: Mapping[int, Any]
    """The same messages as they are now."""

    def of(self, index: int) -> Gone:
        """Return what is gone of a message in OpenAI chat form."""
        places = self.places.get(index, frozenset())
        return Gone(
            text=any(place[0] == "content" for place in places),
            reasoning=any(place[0] == "reasoning_content" for place in places),
            calls=frozenset(int(place[1]) for place in places if place[0] == "tool_calls"),
        )


class Form(Protocol[T_co]):
    """A framework's own objects, told as a request."""

    @property
    def request(self) -> dict[str, Any]:
        """The request, with `messages` and perhaps `tools` and `system`."""

    @property
    def format(self) -> Literal["openai", "anthropic"]: ...

    @property
    def pinned(self) -> Pins:
        """Blocks that may not go, although they look as if they could."""

    def without(self, removed: Removed) -> T_co:
        """The framework's objects without what is removed. Those that were read stay as they are."""


def removed_by(decision: Decision) -> Removed:
    """Return what is missing from the decision's request, in terms of the one that it was asked about."""
    if decision.outcome is None:
        return Removed(frozenset(), {}, {})
    evidence = decision.outcome.evidence
    gone = removal(evidence.original, decision.outcome.removed)
    messages = evidence.original.request.messages
    sent = dict(zip(evidence.returned.kept, decision.messages, strict=True))
    return Removed(
        messages=gone.vanished,
        places={
            index: frozenset(messages[index].parts[number].place for number in numbers)
            for index, numbers in gone.parts.items()
        },
        left={index: sent[index] for index in gone.parts},
    )
