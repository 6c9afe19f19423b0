"""Forms: a framework's own objects as a request that drsr reads, and a decision carried back to them.

The plainest are request bodies of OpenAI chat and Anthropic messages, in which SDK objects may take the place of parts
of the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """Calls that are gone, by their index in `tool_calls`."""


class Removed(NamedTuple):
    """The parts and messages that a decision removes from a request."""

    messages: frozenset[int]
    """The messages that are gone, by their index in the request."""
    places: Mapping[int, frozenset[Place]]
    """Of messages that stay, what is gone: `("tool_calls", 0)`, `("content",)`, ..."""
    left: Mapping[int, Any]
    """Messages that lost some of their parts, as they are now."""

    def of(self, index: int) -> Gone:
        """Return what is gone of a message in OpenAI chat form."""
        places = self.places.get(index, frozenset())
        return Gone(
            text=any(place[0] == "content" for place in places),
            reasoning=any(place[0] == "reasoning_content" for place in places),
            calls=frozenset(int(place[1]) for place in places if place[0] == "tool_calls"),
        )


class Form(Protocol[T_co]):
    """A framework's own objects, expressed as a request."""

    @property
    def request(self) -> dict[str, Any]:
        """The request, with `messages` and perhaps `tools` and `system`."""

    @property
    def format(self) -> Literal["openai", "anthropic"]: ...

    @property
    def pinned(self) -> Pins:
        """Blocks that may not go, although they look as if they could."""

    def without(self, removed: Removed) -> T_co:
        """Return the framework's objects without what is removed. The objects that were read are not changed."""


def removed_by(decision: Decision) -> Removed:
    """Return what is missing from the decision's request, in terms of the original request."""
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


Body = Mapping[str, Any]

_BESIDES = ("tools", "functions", "system")
"""Fields that drsr reads from a body in addition to its messages. It ignores the rest (model, temperature, ...)."""


@dataclass(frozen=True, slots=True)
class WireForm:
    """A request body, unchanged."""

    body: Body
    format: Literal["openai", "anthropic"]
    pinned: Pins = frozenset()

    @property
    def request(self) -> dict[str, Any]:
        # A field that the caller left out may be there as a falsy placeholder of the SDK.
        given = [name for name in _BESIDES if self.body.get(name)]
        return {name: as_json(self.body.get(name)) for name in ("messages", *given)}

    def without(self, removed: Removed) -> Body:
        """Return the body with fewer messages. Those that stay whole are the caller's own objects."""
        messages = [
            removed.left.get(index, message)
            for index, message in enumerate(self.body["messages"])
            if index not in removed.messages
        ]
        return {**self.body, "messages": messages}


def openai_body(body: Body) -> WireForm:
    return WireForm(body, "openai")


def anthropic_body(body: Body) -> WireForm:
    return WireForm(body, "anthropic")


def materialised(body: Body) -> Body:
    """Return the same body with lists where SDKs also take iterators, which can be read only once."""
    read = {name: list(body[name]) for name in ("messages", "input", *_BESIDES) if isinstance(body.get(name), Iterator)}
    return {**body, **read} if read else body


def as_json(value: Any) -> Any:
    """Return plain JSON from what programs put into a body: `response.choices[0].message` and `response.content` among
    it."""
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "model_dump"):  # what the SDKs do with their own models
        return value.model_dump(mode="json", exclude_unset=True, exclude=getattr(value, "__api_exclude__", None))
    return value
