"""Read the request that the scripted agent is shown: the task, texts, and the outputs of its calls.

The id of a call carries the number of the move that made it, and its place among the move's calls: `call_03_1`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

CALL_ID = re.compile(r"^call_(\d+)_(\d+)")


def prompt_of(messages: Sequence[Json]) -> str:
    """Return the task: the first message of the user."""
    for message in messages:
        if message["role"] == "user":
            return str(message["content"])
    raise ValueError("the request has no message of the user")


def user_replies(messages: Sequence[Json]) -> list[str]:
    """Return what the user said after the task."""
    return [str(message["content"]) for message in messages if message["role"] == "user"][1:]


def visible_texts(messages: Sequence[Json]) -> list[str]:
    """Return all texts behind the task, newest message first: outputs, arguments of calls, narration, answers of the
    user."""
    texts: list[str] = []
    prompt_seen = False
    for message in messages:
        if message["role"] == "user" and not prompt_seen:
            prompt_seen = True
            continue
        if message["role"] in {"assistant", "tool", "user"}:
            spoken = [message.get("content"), message.get("reasoning_content")]
            spoken += [_argument_text(made["function"]["arguments"]) for made in message.get("tool_calls") or ()]
            texts.append("\n".join(text for text in spoken if isinstance(text, str)))
    return texts[::-1]


def _argument_text(arguments: str) -> str:
    """The values of a call's arguments, one after another: quotes and escapes of JSON would hide facts."""
    values = [value if isinstance(value, str) else json.dumps(value) for value in json.loads(arguments).values()]
    return "\n".join(values)


def latest_moves(messages: Sequence[Json]) -> set[int]:
    """Return the moves whose outputs end the request."""
    latest: set[int] = set()
    for message in reversed(messages):
        found = CALL_ID.match(message["tool_call_id"]) if message["role"] == "tool" else None
        if found is None:
            break
        latest.add(int(found[1]))
    return latest


def visible_outputs(messages: Sequence[Json]) -> dict[tuple[int, int], str]:
    """For each visible call, by move and slot, its newest output."""
    outputs: dict[tuple[int, int], str] = {}
    for message in messages:
        if message["role"] == "tool":
            found = CALL_ID.match(message["tool_call_id"])
            if found:
                outputs[int(found[1]), int(found[2])] = str(message["content"])
    return outputs
