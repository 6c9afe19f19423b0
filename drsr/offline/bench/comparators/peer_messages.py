"""A request passed message by message to a third-party package, and the remainder carried back.

Packages know OpenAI's chat form or one of their own. They receive text and calls; a message that they keep is the very
message that was passed, so everything else in a wire message survives, and both protocols work the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from drsr.errors import ComparatorError
from drsr.offline.bench.comparators.edits import with_texts
from drsr.request.parts import Call, Message, Opaque, PartRef, Result, Text
from drsr.request.request import Request

SYSTEM_FIELD = -1
"""Stands in for the index of Anthropic's `system` field, which is not a message."""


@dataclass(frozen=True, slots=True)
class Told:
    """One message as a package sees it."""

    message: int
    """Index of the message that it represents, wholly or in part."""
    parts: tuple[int, ...]
    """The parts that it holds."""
    role: str
    """In OpenAI's words."""
    text: str | None
    """Text of the message; None if there is no text part at all."""
    calls: tuple[Call, ...] = ()
    call_id: str = ""

    def to_chat(self) -> dict[str, Any]:
        """Return the message in OpenAI's chat form."""
        wire: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.calls:
            wire["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}
                for call in self.calls
            ]
        if self.role == "tool":
            wire["tool_call_id"] = self.call_id
        elif self.role == "function":
            wire["name"] = self.call_id.removeprefix("function:")
        return wire


class Left(NamedTuple):
    """A message that a package left in, perhaps with other words."""

    told: Told
    text: str | None


@contextmanager
def running(package: str) -> Iterator[None]:
    """Whatever a package raises is a failure of its row, which is counted, and not of the evaluation."""
    try:
        yield
    except Exception as error:
        raise ComparatorError(f"{package} raised {type(error).__name__}") from error


def tell(request: Request) -> list[Told]:
    """Return the request, one after another. Anthropic's results become separate messages, in front of the user's."""
    told = [] if request.system is None else [_told(SYSTEM_FIELD, request.system, range(len(request.system.parts)))]
    for index, message in enumerate(request.messages):
        results = [number for number, part in enumerate(message.parts) if isinstance(part, Result)]
        others = [number for number, part in enumerate(message.parts) if not isinstance(part, Result)]
        told += [_told(index, message, [number]) for number in results]
        if others or not results:
            told.append(_told(index, message, others))
    return told


def carry_back(request: Request, left: Sequence[Left]) -> Request:
    """Return the request with only the remaining messages. The very same request if all of it remains, unchanged."""
    kept: dict[int, set[int]] = {}
    texts: dict[PartRef, str] = {}
    dropped: set[PartRef] = set()
    for told, text in left:
        kept.setdefault(told.message, set()).update(told.parts)
        if text != told.text and told.message != SYSTEM_FIELD:
            spoken = _spoken(request, told)  # none where all it says is an image: that stays as it is
            texts |= dict.fromkeys(spoken[:1], text or "")
            dropped |= set(spoken[1:])
    system = request.system
    without_system = system is not None and SYSTEM_FIELD not in kept
    whole = all(
        index in kept and len(kept[index]) == len(message.parts) for index, message in enumerate(request.messages)
    )
    if whole and not texts and not without_system:
        return request
    reworded = with_texts(request, texts)
    messages = []
    for index, message in enumerate(reworded.messages):
        gone = {number for number in range(len(message.parts)) if number not in kept.get(index, set())}
        gone |= {ref.part for ref in dropped if ref.message == index}
        if index in kept:
            messages.append(reworded.without_parts(index, gone) if gone else message)
    if without_system:
        fields = {name: value for name, value in (request.fields or {}).items() if name != "system"}
        reworded = replace(reworded, system=None, fields=fields)
    return reworded.with_messages(messages)


def arguments(call: Call) -> str:
    """Return a call's arguments as the string that OpenAI's form has."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def _told(index: int, message: Message, numbers: Sequence[int]) -> Told:
    parts = [message.parts[number] for number in numbers]
    texts = [
        f"[{part.kind}]" if isinstance(part, Opaque) else part.text
        for part in parts
        if isinstance(part, Text | Result | Opaque)
    ]
    results = [part for part in parts if isinstance(part, Result)]
    role = str(message.wire["role"])
    return Told(
        message=index,
        parts=tuple(numbers),
        role="tool" if results and role == "user" else role,  # Anthropic's user carries results
        text="\n".join(texts) if texts else None,
        calls=tuple(part for part in parts if isinstance(part, Call)),
        call_id=results[0].call_id if results else "",
    )


def _spoken(request: Request, told: Told) -> list[PartRef]:
    """Return the parts whose words a package may change: the first takes them all."""
    parts = request.messages[told.message].parts
    return [PartRef(told.message, number) for number in told.parts if isinstance(parts[number], Text | Result)]
