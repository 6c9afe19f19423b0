"""OpenAI chat: a bare list of messages, or an object with `messages` (and `tools`); one per line as well.

Ids and scores are taken from the keys that people commonly put beside `messages`. Assistants that act in plain text are
turned into tool exchanges (`text_actions`).
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats import text_actions, wire_form
from drsr.offline.ingest.formats.anthropic_form import BLOCK_TYPES
from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.chat_lookalikes import is_lookalike
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, identity, malformed, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_OTHER_FORMATS = frozenset(
    {"trajectory_format", "simulations", "traj", "history", "system", "anthropic_version", "injection_task_id"}
)
"""Keys beside `messages` that belong to another format or to Anthropic's form."""
_REASONING = frozenset({"reasoning_content", "reasoning", "thinking_blocks"})
_ID_KEYS = ("trajectory_id", "run_id", "conversation_id", "session_id", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")
_REWARD_KEYS = ("reward", "score", "resolved")


def is_message(value: Any) -> bool:
    """Return whether a value is one chat message, in OpenAI's form or in Anthropic's."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and value["role"] in ROLES
        and not value.keys().isdisjoint(("content", "tool_calls", "function_call"))
        and value.get("type", "message") == "message"
    )


def is_anthropic(messages: list[Any]) -> bool:
    """Return whether a message has content blocks that only Anthropic's form has."""
    for message in messages:
        content = message.get("content") if type(message) is dict else None
        if type(content) is list:  # seldom: a text as a rule
            kinds = (block.get("type") for block in content if isinstance(block, dict))
            if any(isinstance(kind, str) and kind in BLOCK_TYPES for kind in kinds):
                return True
    return False


def add_message(chat: Chat, message: Json) -> None:
    """One message of a conversation with structured calls."""
    if chat.keep(message):
        return
    role, content, demo = message.get("role"), message.get("content"), message.get("is_demo") is True
    name = message.get("name") if isinstance(message.get("name"), str) else None
    if role == "assistant":
        calls = as_list(message.get("tool_calls") or [], "tool_calls")
        if message.get("function_call"):
            calls = [*calls, as_dict(message["function_call"], "function_call")]
        chat.answer(content or message.get("refusal"), calls, reasoning=reasoning_of(message), demo=demo)
    elif role in ("tool", "function"):
        chat.result(message.get("tool_call_id") if role == "tool" else None, content, demo=demo, name=name)
    else:
        chat.say(str(role), content, demo=demo, name=name)


def reasoning_of(message: Json) -> str | None:
    """Return the reasoning beside an assistant's content, in the spellings in use."""
    if _REASONING.isdisjoint(message):
        return None
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            return str(message[key])
    blocks = message.get("thinking_blocks")
    if not isinstance(blocks, list):
        return None
    thoughts = (block.get("thinking") for block in blocks if isinstance(block, dict))
    return "\n".join(thought for thought in thoughts if isinstance(thought, str)) or None


def conversation(messages: list[Any]) -> list[Json]:
    """Return a list of messages in wire form."""
    for index, message in enumerate(messages):
        if type(message) is not dict:
            raise malformed(f"message {index}", "an object", message)
    structured = any(
        message.get("tool_calls") or message.get("function_call") or message.get("tool_call_id") for message in messages
    )
    style = None if structured else text_actions.style_of(messages)
    if not style and wire_form.is_conversation(messages):
        return messages
    chat = Chat()
    if style:
        text_actions.add_turns(chat, messages, style)
    else:
        for message in messages:
            add_message(chat, message)
    return chat.messages()


def is_mini_swe_agent(value: Any) -> bool:
    """Return whether a list of messages, or an object with one, was written by mini-swe-agent."""
    messages = value
    if isinstance(value, dict):
        mark = value.get("trajectory_format")
        if isinstance(mark, str) and mark.startswith("mini-swe-agent"):
            return True
        if "info" in value and dig(value, "info", "mini_version") is not None:
            return True
        messages = value.get("messages")
    return isinstance(messages, list) and bool(messages) and dig(messages[-1], "role") == "exit"


def is_inspect_sample(value: Json) -> bool:
    """Return whether an object with `messages` is a sample of an Inspect log."""
    return "epoch" in value and not value.keys().isdisjoint(("scores", "target"))


def _recognises(value: Any) -> bool:
    if is_mini_swe_agent(value) or is_lookalike(value):
        return False
    if isinstance(value, dict):
        if not value.keys().isdisjoint(_OTHER_FORMATS) or is_inspect_sample(value):
            return False
        value = value.get("messages")
    if not isinstance(value, list) or not value:
        return False
    return all(is_message(message) and not _is_item(message) for message in value[:3]) and not is_anthropic(value)


def _is_item(message: Json) -> bool:
    """Return whether this is an item of OpenAI's Responses form, which the reader for Codex knows."""
    content = message.get("content")
    if not isinstance(content, list):
        return False
    kinds = (part.get("type") for part in content if isinstance(part, dict))
    return any(kind in ("input_text", "output_text") for kind in kinds)


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {}
    messages = value if isinstance(value, list) else as_list(value.get("messages"), "messages")
    request: Json = {"messages": conversation(messages)}
    if fields.get("tools") is not None and (tools := as_list(fields["tools"], "tools")):
        request["tools"] = tools
    return Run(
        record.place,
        "openai",
        request,
        local_id=first_identity(fields, _ID_KEYS),
        task=first_identity(fields, _TASK_KEYS),
        domain=identity(fields.get("domain")),
        reward=next((found for key in _REWARD_KEYS if (found := score(fields.get(key))) is not None), None),
    )


def first_identity(fields: Json, keys: tuple[str, ...]) -> str | None:
    """Return the first of these keys that holds an id."""
    return next((found for key in keys if key in fields and (found := identity(fields[key]))), None)


READERS = (
    Reader(
        "openai_chat",
        2,
        "OpenAI chat messages (a list, or an object with `messages`)",
        _recognises,
        each(_read),
        resembles_chat=True,
    ),
)
