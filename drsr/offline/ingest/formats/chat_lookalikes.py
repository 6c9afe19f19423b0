"""Objects with `messages`, and lists of messages, that look like a chat and are something else.

The chat readers ask here what to leave alone, and each such format's own reader asks the same question, so that no
record is recognised by two of them.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.reader import dig
from drsr.offline.ingest.trajectories import Json

_AGENTDOJO = frozenset({"suite_name", "user_task_id", "injection_task_id", "pipeline_name"})
_LITELLM_MARKS = ("litellm_call_id", "litellm_trace_id", "litellm_params")
_CONVERSE_BLOCKS = ("toolUse", "toolResult", "reasoningContent", "cachePoint")
_AUTOGEN_TYPES = frozenset(
    {
        *("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage"),
        *("StructuredMessage", "ToolCallRequestEvent", "ToolCallExecutionEvent", "ThoughtEvent", "MemoryQueryEvent"),
        *("UserInputRequestedEvent", "ModelClientStreamingChunkEvent", "SelectSpeakerEvent", "CodeGenerationEvent"),
        *("CodeExecutionEvent", "SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage"),
    }
)


def is_lookalike(value: Any) -> bool:
    """Return whether an object or a list of messages belongs to one of the formats below."""
    messages = value.get("messages") if isinstance(value, dict) else value
    if isinstance(value, dict) and (is_litellm_payload(value) or value.keys() >= _AGENTDOJO):
        return True
    if not isinstance(messages, list):
        return False
    return are_ui_messages(messages) or are_autogen_messages(messages) or are_converse_messages(messages)


def is_litellm_payload(value: Json) -> bool:
    """Return whether an object with `messages` is LiteLLM's log of one call."""
    if not isinstance(value.get("messages"), list | str):
        return False
    if isinstance(value.get("call_type"), str) and "response" in value:
        return True
    return not value.keys().isdisjoint(_LITELLM_MARKS)


def is_ui_message(value: Any) -> bool:
    """Return whether a value is a message of the Vercel AI SDK's user interface that no chat would have."""
    if not isinstance(value, dict) or value.get("role") not in ("system", "user", "assistant", "data"):
        return False
    if isinstance(value.get("toolInvocations"), list):
        return True
    parts = value.get("parts")
    return isinstance(parts, list) and bool(parts) and all(isinstance(dig(part, "type"), str) for part in parts)


def are_ui_messages(messages: list[Any]) -> bool:
    """Return whether any of these is a user interface's message; users' own messages may look like any chat's."""
    for message in messages:
        if type(message) is dict and ("parts" in message or "toolInvocations" in message) and is_ui_message(message):
            return True
    return False


def is_autogen_message(value: Any) -> bool:
    """Return whether a value is a message or an event of AutoGen 0.4."""
    if not isinstance(value, dict) or "role" in value or "content" not in value:
        return False
    kind = value.get("type")
    return isinstance(kind, str) and kind in _AUTOGEN_TYPES and ("source" in value or kind in _WITHOUT_SOURCE)


_WITHOUT_SOURCE = ("SystemMessage", "FunctionExecutionResultMessage")


def are_autogen_messages(messages: list[Any]) -> bool:
    """Return whether these are messages of AutoGen: of 0.4, or a chat history of 0.2 (AG2) that is not a plain chat."""
    if not messages:
        return False
    if is_autogen_message(messages[0]):
        return True
    if is_inverted(messages):
        return True
    for message in messages:
        if type(message) is dict and "tool_responses" in message and isinstance(message["tool_responses"], list):
            return True
    return False


def is_inverted(messages: list[Any]) -> bool:
    """Return whether roles are those that AG2's initiator of a chat sees: what it says itself is the `assistant`'s.

    The one who begins counts as assistant, and another one answers as user. All speakers are named; older versions name
    none, and then it shows where what code printed is the assistant's.
    """
    first = messages[0]
    if dig(first, "role") != "assistant" or first.get("tool_calls"):
        return False
    if "name" not in first:
        said = (dig(message, "content") for message in messages if dig(message, "role") == "assistant")
        return any(isinstance(content, str) and content.startswith("exitcode: ") for content in said)
    others = [message for message in messages if dig(message, "role") != "tool"]
    named = all(isinstance(dig(message, "name"), str) for message in others)
    return named and any(dig(message, "role") == "user" for message in others)


def are_converse_messages(messages: list[Any]) -> bool:
    """Return whether these are messages of Bedrock's Converse: content blocks with a key in place of a type."""
    for message in messages:
        content = message.get("content") if type(message) is dict else None
        if type(content) is not list:  # a text as a rule
            continue
        for block in content:
            if isinstance(block, dict) and "type" not in block and not block.keys().isdisjoint(_CONVERSE_BLOCKS):
                return True
    return False
