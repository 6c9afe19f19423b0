"""Recognise OpenAI's wire form: nearly every message of OpenAI's own form, and most whole conversations.

Such a thing is taken as it was read; building it anew is what reading would spend its time on.
"""

from __future__ import annotations

from typing import Any, Literal

from drsr.offline.ingest.formats.synthetic_outputs import is_synthetic
from drsr.offline.ingest.trajectories import Json

SPEAKERS = ("system", "developer", "user", "assistant")


def is_conversation(messages: list[Json]) -> bool:
    """Return whether a `Chat` that takes these messages would hand out the very same: all in wire form, and every
    result among those directly behind the message that made its call."""
    waiting: list[str] = []  # ids of the latest calls without a result
    for message in messages:
        kind = kind_of(message)
        if kind == "result":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif kind == "calls":
            waiting = [call["id"] for call in message["tool_calls"]]
        elif kind == "text":
            waiting = []
        else:
            return False
    return True


def kind_of(message: Json) -> Literal["text", "calls", "result"] | None:
    """Return the kind of a message: a text by anybody, the assistant's calls, or a tool's result; None if it is not in
    wire form or holds anything else."""
    role, content = message.get("role"), message.get("content", False)
    if type(content) is str:
        if len(message) == 2:
            return "text" if content and role in SPEAKERS and not is_synthetic(content) else None
        if role == "tool":
            is_named = len(message) == 4 and type(message.get("name")) is str
            return "result" if type(message.get("tool_call_id")) is str and (len(message) == 3 or is_named) else None
    elif content is not None:
        return None
    calls = message.get("tool_calls")
    if role != "assistant" or len(message) != 3 or type(calls) is not list or not calls:
        return None
    return "calls" if all(map(is_call, calls)) else None


def is_call(call: Any) -> bool:
    """Return whether this is a function call with nothing else in it."""
    if type(call) is not dict or len(call) != 3 or call.get("type") != "function":
        return False
    function = call.get("function")
    if type(function) is not dict or len(function) != 2:
        return False
    call_id, name = call.get("id"), function.get("name")
    return (
        type(call_id) is str
        and call_id != ""
        and type(name) is str
        and name != ""
        and type(function.get("arguments")) is str
    )
