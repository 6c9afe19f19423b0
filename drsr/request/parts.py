"""The typed parts of a message; each knows its place in the wire form.

These are pure values. How a message is read from and written to a protocol's wire form is in `drsr/wire/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Json = Mapping[str, Any]
"""One object of a parsed JSON document. Never changed once read."""

Role = Literal["system", "user", "assistant", "tool"]
"""The speaker, in the same words for every protocol: OpenAI's `developer` is a system, `function` a tool."""

Place = tuple[str | int, ...]
"""Position of a part inside its wire message: `("content", 2)`, `("tool_calls", 0)`."""


@dataclass(frozen=True, slots=True)
class Text:
    """Something written to be read."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model's reasoning before its answer, as readable text."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call."""

    id: str
    """Id that a result refers to. For a legacy `function_call`, which has none, `openai_chat.py` makes one up."""
    name: str
    arguments: Any
    """A JSON value; a string that is not a JSON object stays a string."""
    place: Place


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer to one call."""

    call_id: str
    text: str
    opaque: bool
    """True when it holds anything that is not text (an image, a document)."""
    place: Place


@dataclass(frozen=True, slots=True)
class Opaque:
    """Content that is not text: an image, a file, sound, encrypted reasoning, or a kind we do not know."""

    kind: str
    place: Place


Part = Text | Reasoning | Call | Result | Opaque


class PartRef(NamedTuple):
    """One part of one message of a request."""

    message: int
    part: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Role
    parts: tuple[Part, ...]
    wire: Json
    """The message as received. Writing back an untouched message returns it unchanged."""
    demonstration: bool = False
    """True for an example of another task that was put before the real one."""
    text_action: bool = False
    """True for an action in plain text, which is deleted as a whole: with its thought, and with the observation after
    it."""
    # Looked up once: every rewrite that a decision considers is validated, and shares most of its messages.
    calls: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)
    """Indices of its parts that are calls, with their ids."""
    results: tuple[tuple[int, str], ...] = field(init=False, repr=False, compare=False)
    """Indices of its parts that are results, with the ids of the calls they answer."""
    is_empty: bool = field(init=False, repr=False, compare=False)
    """True if the message is empty: without a call, a result or non-empty text."""

    def __post_init__(self) -> None:
        calls, results, is_empty = [], [], True
        for number, part in enumerate(self.parts):
            if isinstance(part, Call):
                calls.append((number, part.id))
            elif isinstance(part, Result):
                results.append((number, part.call_id))
            is_empty = is_empty and not says_something(part)
        object.__setattr__(self, "calls", tuple(calls))
        object.__setattr__(self, "results", tuple(results))
        object.__setattr__(self, "is_empty", is_empty)


SEALED = frozenset({"redacted_thinking", "thinking_blocks", "reasoning_details"})
"""Kinds of opaque content that are reasoning, encrypted or signed: an Anthropic block, and fields of chat messages."""


def is_reasoning(part: Part) -> bool:
    """Return whether this is reasoning, readable or sealed: it goes with what it led to."""
    return isinstance(part, Reasoning) or (isinstance(part, Opaque) and part.kind in SEALED)


def says_something(part: Part) -> bool:
    """Return False only for text or reasoning without a character."""
    return bool(part.text) if isinstance(part, (Text, Reasoning)) else True
