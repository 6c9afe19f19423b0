"""Anthropic messages: a bare list with content blocks, or an object with `messages`, `system` and `tools`."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.anthropic_form import Turns, read_system
from drsr.offline.ingest.formats.chat_lookalikes import is_lookalike
from drsr.offline.ingest.formats.openai_chat import (
    first_identity,
    is_anthropic,
    is_inspect_sample,
    is_message,
    is_mini_swe_agent,
)
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, each, identity, malformed, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_ID_KEYS = ("trajectory_id", "run_id", "conversation_id", "session_id", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")


def request_of(messages: list[Any], system: Any, tools: Any = None) -> Json:
    """Return a request body. System messages in the list move to `system`, where this form has them."""
    turns = Turns()
    systems = [read_system(system)]
    for index, message in enumerate(messages):
        fields = as_dict(message, f"message {index}")
        role, content, demo = fields.get("role"), fields.get("content"), fields.get("is_demo") is True
        if role == "assistant":
            turns.assistant(content, demo=demo)
        elif role == "user":
            turns.user(content, demo=demo)
        elif role == "system":
            systems.append(read_system(content))
        else:
            raise malformed(f"the role of message {index}", "user, assistant or system", role)
    request: Json = {"messages": turns.messages()}
    said = [system for system in systems if system]
    if len(said) == 1:
        request["system"] = said[0]
    elif said:
        request["system"] = [block for system in said for block in _as_blocks(system)]
    if tools is not None and as_list(tools, "tools"):
        request["tools"] = tools
    return request


def _as_blocks(system: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _recognises(value: Any) -> bool:
    if is_mini_swe_agent(value) or is_lookalike(value):
        return False
    if isinstance(value, list):
        return bool(value) and all(map(is_message, value[:3])) and is_anthropic(value)
    if not isinstance(value, dict) or is_inspect_sample(value):
        return False
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages or not all(map(is_message, messages[:3])):
        return False
    return "system" in value or "anthropic_version" in value or is_anthropic(messages)


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {"messages": value}
    return Run(
        record.place,
        "anthropic",
        request_of(as_list(fields.get("messages"), "messages"), fields.get("system"), fields.get("tools")),
        local_id=first_identity(fields, _ID_KEYS),
        task=first_identity(fields, _TASK_KEYS),
        domain=identity(fields.get("domain")),
        reward=score(fields.get("reward")),
    )


READERS = (
    Reader(
        "anthropic_messages",
        1,
        "Anthropic messages (a list with content blocks, or an object with `messages` and `system`)",
        _recognises,
        each(_read),
        resembles_chat=True,
    ),
)
