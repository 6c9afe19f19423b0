"""Gemini CLI sessions: one document with `messages`, or lines, the first with `sessionId` and `projectHash`.

A message of type `gemini` holds what the model said and the calls of that turn with their results. In lines, a message
that is written again replaces the earlier one of its id, `$rewindTo` takes back everything from that message on, and
`$set` may replace the list of messages as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.gemini_form import told
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_TYPES = ("user", "gemini", "info", "error", "warning")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("sessionId"), str) and isinstance(value.get("projectHash"), str):
        return True
    if isinstance(value.get("$rewindTo"), str):
        return True
    return value.get("type") == "gemini" and "content" in value and isinstance(value.get("id"), str)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    session: str | None = None
    messages: dict[str, Json] = {}
    for record in records:
        value = record.value
        if not isinstance(value, dict):
            continue
        session = identity(value.get("sessionId")) or session
        listed = value.get("messages", dig(value, "$set", "messages"))
        if isinstance(listed, list):
            messages = {str(dig(message, "id") or number): message for number, message in enumerate(listed)}
        elif isinstance(value.get("$rewindTo"), str):
            messages = _rewound(messages, value["$rewindTo"])
        elif isinstance(value.get("id"), str) and value.get("type") in _TYPES:
            messages[value["id"]] = value
    chat = Chat()
    for message in messages.values():
        _add(chat, as_dict(message, "a message"))
    request = {"messages": chat.messages()}
    yield Run(file.location, "openai", request, run_id=session, task=session, domain="code", only_session=True)


def _rewound(messages: dict[str, Json], name: str) -> dict[str, Json]:
    """The messages before the one of that name; none where it is not there, as the program itself has it."""
    names = list(messages)
    kept = names[: names.index(name)] if name in messages else []
    return {name: messages[name] for name in kept}


def _add(chat: Chat, message: Json) -> None:
    content = _said(message.get("content"))
    if message.get("type") == "user":
        chat.say("user", content)
    elif message.get("type") == "gemini":
        calls = [as_dict(call, "a tool call") for call in as_list(message.get("toolCalls") or [], "toolCalls")]
        made = [tool_call(call.get("name", ""), call.get("args"), identity(call.get("id"))) for call in calls]
        chat.answer(content, made, reasoning=_thoughts(message.get("thoughts")))
        for call, wire in zip(calls, made, strict=True):
            results = call.get("result")
            for part in results if isinstance(results, list) else [results]:
                response = dig(part, "functionResponse", "response")
                if response is not None and chat.waits_for(wire["id"]):
                    chat.result(wire["id"], told(response))


def _said(content: Any) -> Any:
    """Content in wire form: a text, or parts of which only the text is kept."""
    parts = content if isinstance(content, list) else [content]
    said = [part if isinstance(part, str) else dig(part, "text") for part in parts]
    return [{"type": "text", "text": text} for text in said if isinstance(text, str) and text] or None


def _thoughts(thoughts: Any) -> str | None:
    listed = thoughts if isinstance(thoughts, list) else []
    lines = [
        ": ".join(text for text in (dig(thought, "subject"), dig(thought, "description")) if isinstance(text, str))
        for thought in listed
    ]
    return "\n\n".join(filter(None, lines)) or None


READERS = (
    Reader(
        "gemini_cli",
        1,
        "Gemini CLI sessions (`sessionId`, `projectHash`, `messages`)",
        _recognises,
        _read,
        grouping="session",
    ),
)
