"""A stretch of a conversation as plain text: what a summariser is shown."""

from __future__ import annotations

from collections.abc import Iterable

from drsr.request.history import History, Step
from drsr.request.json_values import canonical_json
from drsr.request.parts import Call, Message, Opaque, Part, Result
from drsr.request.request import Request


def transcript(messages: Iterable[Message]) -> str:
    """Return one paragraph per message, each part on separate lines after the name of its speaker."""
    return "\n\n".join(filter(None, (_paragraph(message) for message in messages)))


def task_of(history: History) -> str:
    """Return what the user said first."""
    prefix = history.request.messages[: history.prefix_length]
    return transcript(message for message in prefix if message.role == "user" and not message.demonstration)


def step_messages(history: History, step: Step) -> tuple[Message, ...]:
    """Return a Step with what follows it up to the next."""
    following = history.steps[step.index + 1 : step.index + 2]
    stop = following[0].message if following else len(history.request.messages)
    return history.request.messages[step.message : stop]


def conversation(request: Request) -> str:
    """Return the whole request."""
    head = (request.system,) if request.system is not None else ()
    return transcript([*head, *request.messages])


def _paragraph(message: Message) -> str:
    return "\n".join(filter(None, (_line(message.role, part) for part in message.parts)))


def _line(role: str, part: Part) -> str:
    match part:
        case Call(name=name, arguments=arguments):
            return f"call {name}: {canonical_json(arguments)}"
        case Result(text=text):
            return f"result: {text}"
        case Opaque(kind=kind):
            return f"{role}: [{kind}]"
        case _:
            return f"{role}: {part.text}" if part.text else ""
