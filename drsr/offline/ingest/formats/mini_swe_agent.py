"""mini-swe-agent `.traj.json`: text with one fenced command (v1), tool calls (v2), or Responses objects (v2).

The last message has role `exit` and repeats the submission; it answers nobody, so the final call stays unanswered.
Version 1 ends with a user message instead, which is the submission and no observation.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, text_of
from drsr.offline.ingest.formats.openai_chat import add_message, is_mini_swe_agent
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, identity, score, stem
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.formats.responses_items import Items
from drsr.offline.ingest.formats.text_actions import fenced
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile


def _recognises(value: Any) -> bool:
    return isinstance(dig(value, "messages") if isinstance(value, dict) else value, list) and is_mini_swe_agent(value)


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    value = {"messages": value} if isinstance(value, list) else value
    messages = [as_dict(message, "a message") for message in as_list(value.get("messages"), "messages")]
    if messages and _is_submission(messages[-1], value):
        messages.pop()
    chat = Chat()
    items = Items(chat)
    structured = any(message.get("tool_calls") for message in messages)
    for message in messages:
        if message.get("object") == "response" or "role" not in message:
            outputs = message["output"] if message.get("object") == "response" else [message]
            for item in as_list(outputs, "output"):
                items.add(as_dict(item, "an item"))
        else:
            items.flush()
            _add(chat, message, structured)
    items.flush()
    instance = identity(value.get("instance_id")) or identity(dig(value, "info", "instance_id"))
    return Run(
        record.place,
        "openai",
        {"messages": chat.messages()},
        task=instance or stem(record, file),
        domain="code",
        reward=score(dig(value, "info", "resolved")),
    )


def _add(chat: Chat, message: Json, structured: bool) -> None:
    action = fenced(text_of(message.get("content"))) if message.get("role") == "assistant" and not structured else None
    if action:
        chat.answer(action.thought or None, action.calls)
    elif message.get("role") == "user" and chat.waits and not structured:
        chat.result(None, message.get("content"))
    else:
        add_message(chat, message)


def _is_submission(message: Json, value: Json) -> bool:
    if message.get("role") == "exit":
        return True
    submission = dig(value, "info", "submission")
    return message.get("role") == "user" and submission is not None and message.get("content") == submission


READERS = (
    Reader(
        "mini_swe_agent",
        2,
        "mini-swe-agent .traj.json (`messages`, `info`, `trajectory_format`)",
        _recognises,
        each(_read),
        resembles_chat=True,
    ),
)
