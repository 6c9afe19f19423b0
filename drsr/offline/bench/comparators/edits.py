"""The few ways in which comparators change a request, for both protocols, and where its history can be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drsr.request.history import History
from drsr.request.parts import Message, PartRef, Result, Text
from drsr.request.request import Request, read_request


def steps_before_recent(history: History) -> int:
    """Return the number of Steps, complete or not, before the two latest complete ones."""
    return history.recent[0].index if history.recent else 0


def end_of_finished(history: History) -> int:
    """Return the index of the message after the last complete Step: what follows is unanswered yet, a call or a message
    of the user."""
    complete = [step for step in history.steps if step.complete]
    return complete[-1].last_message + 1 if complete else history.prefix_length


KEEPS_UNFINISHED = (
    "A Step that is not complete, and what the user said behind the last complete one, are never summarised away."
)
"""The assumption of every method that resets the whole conversation."""


def cut(history: History, first: int) -> Request:
    """Return the prefix, and the messages from index `first` on."""
    messages = history.request.messages
    return history.request.with_messages([*messages[: history.prefix_length], *messages[first:]])


def with_texts(request: Request, texts: Mapping[PartRef, str]) -> Request:
    """Other words in some parts: of a result its whole content, of a text the text. Ids and order stay; without words
    it is the very same request."""
    if not texts:
        return request
    by_message: dict[int, dict[int, str]] = {}
    for ref, text in texts.items():
        by_message.setdefault(ref.message, {})[ref.part] = text
    messages = list(request.messages)
    for index, replaced in by_message.items():
        wire: dict[str, Any] = dict(messages[index].wire)
        for number, text in replaced.items():
            _write(wire, messages[index], number, text)
        messages[index] = _read(request, wire)
    return request.with_messages(messages)


def with_section(request: Request, prefix_length: int, title: str, text: str) -> Request:
    """Append a section to the user's first message, so that no role changes; add a new message if the user has not said
    anything yet."""
    section = f"## {title}\n\n{text}"
    messages = list(request.messages)
    for index in range(prefix_length - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and not message.demonstration:
            messages[index] = _read(request, {**message.wire, "content": _extended(message.wire["content"], section)})
            return request.with_messages(messages)
    return request.with_messages([*messages[:prefix_length], said(request, "user", section), *messages[prefix_length:]])


def said(request: Request, role: str, text: str) -> Message:
    """Return a new message of plain text, in the request's protocol."""
    return _read(request, {"role": role, "content": text})


def _extended(content: Any, section: str) -> Any:
    if isinstance(content, str):
        return f"{content}\n\n{section}"
    return [*content, {"type": "text", "text": section}]


def _write(wire: dict[str, Any], message: Message, number: int, text: str) -> None:
    part = message.parts[number]
    if not isinstance(part, Text | Result):
        raise ValueError(f"part {number} is a {type(part).__name__}, which has no text to replace")
    field, *place = part.place
    if not place:
        wire[str(field)] = text
        return
    items: Sequence[Any] = wire[str(field)]
    index = int(place[0])
    key = "content" if isinstance(part, Result) else "refusal" if items[index]["type"] == "refusal" else "text"
    wire[str(field)] = [{**item, key: text} if at == index else item for at, item in enumerate(items)]


def _read(request: Request, wire: Mapping[str, Any]) -> Message:
    return read_request([dict(wire)], protocol=request.protocol).messages[0]
