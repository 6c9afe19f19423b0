"""What is in OpenAI's wire form as it stands: nearly every message of OpenAI's own form, and most whole conversations.

Such a thing is taken as it was read; building it anew is what reading would spend its time on.
"""

from __future__ import annotations

from drsr.offline.trajectories import Json

SPEAKERS = ("system", "developer", "user", "assistant")


def is_conversation(messages: list[Json]) -> bool:
    """Whether a `Chat` that takes these messages would hand out the very same: all in wire form, and every result
    among those directly behind the message that made its call."""
    waiting: list[str] = []  # ids of the latest calls without a result
    for message in messages:
        if message.get("role") == "tool":
            if not is_result(message) or message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif "tool_calls" in message:
            if not is_calling(message):
                return False
            waiting = [call["id"] for call in message["tool_calls"]]
        elif is_saying(message):
            waiting = []
        else:
            return False
    return True


def is_saying(message: Json) -> bool:
    """Whether someone says a text, and nothing else."""
    content = message.get("content")
    return len(message) == 2 and type(content) is str and content != "" and message.get("role") in SPEAKERS


def is_calling(message: Json) -> bool:
    """Whether the assistant makes calls, and may say a text with it."""
    calls, content = message.get("tool_calls"), message.get("content", False)
    return (
        len(message) == 3
        and message.get("role") == "assistant"
        and (content is None or type(content) is str)
        and type(calls) is list
        and bool(calls)
        and all([type(call) is dict and is_call(call) for call in calls])
    )


def is_call(call: Json) -> bool:
    """Whether this is a function call with nothing else in it."""
    function = call.get("function")
    if type(function) is not dict or len(function) != 2 or len(call) != 3 or call.get("type") != "function":
        return False
    call_id, name = call.get("id"), function.get("name")
    return (
        type(call_id) is str
        and call_id != ""
        and type(name) is str
        and name != ""
        and type(function.get("arguments")) is str
    )


def is_result(message: Json) -> bool:
    """Whether a tool says a text. It may be named."""
    return (
        message.get("role") == "tool"
        and type(message.get("content")) is str
        and type(message.get("tool_call_id")) is str
        and (len(message) == 3 or (len(message) == 4 and type(message.get("name")) is str))
    )
