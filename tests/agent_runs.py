"""Requests of an agent in the middle of its run, in both protocols, each with a marker by which it is known again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.request.request import Protocol
from tests.conversations import Conversation, Exchange, Turn

TOOLS = ("read_log", "Reads a log file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def run(marker: str, steps: int = 8) -> Conversation:
    """A run whose every message differs from those of runs with other markers; old enough to be pruned from 6 on."""
    turns = [
        Turn(
            "",
            f"{marker}: looking into log {number}",
            (Exchange(f"call_{number}", "read_log", {"path": f"/{marker}/{number}"}, f"{marker} {number} fine " * 6),),
            "",
        )
        for number in range(steps)
    ]
    return Conversation(
        "You watch logs.", f"Find the fault in {marker}.", (*turns[:-1], turns[-1]._replace(user=marker))
    )


def openai_body(marker: str = "alpha", steps: int = 8, *, model: str = "echo", **fields: Any) -> dict[str, Any]:
    """A body for `/v1/chat/completions`."""
    name, description, parameters = TOOLS
    tool = {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
    return {"model": model, **run(marker, steps).to_openai(), "tools": [tool], **fields}


def anthropic_body(marker: str = "alpha", steps: int = 8, *, model: str = "echo", **fields: Any) -> dict[str, Any]:
    """A body for `/v1/messages`."""
    name, description, parameters = TOOLS
    tool = {"name": name, "description": description, "input_schema": parameters}
    return {"model": model, "max_tokens": 64, **run(marker, steps).to_anthropic(), "tools": [tool], **fields}


def growing(marker: str, protocol: Protocol = "openai", last: int = 12) -> Iterator[dict[str, Any]]:
    """The requests of one run, from its task on, each with one Step more."""
    make = openai_body if protocol == "openai" else anthropic_body
    whole = make(marker, last)
    first, step = (2, 2) if protocol == "openai" else (1, 2)
    for steps in range(last):
        yield {**whole, "messages": whole["messages"][: first + step * steps]}
