"""Pydantic AI: message histories (`kind`: request, response; `parts` with `part_kind`), as a list or one per line."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.reader import Format, Pieces, Run, as_dict, as_list, dig, identity, whole_or_in_pieces
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile


def is_message(value: Any) -> bool:
    """Return whether a value is one message of a history."""
    if dig(value, "kind") not in ("request", "response") or not isinstance(value.get("parts"), list):
        return False
    return all(isinstance(dig(part, "part_kind"), str) for part in value["parts"]) and "role" not in value


def _recognises(value: Any) -> bool:
    messages = value if isinstance(value, list) else dig(value, "messages")
    return isinstance(messages, list) and bool(messages) and all(is_message(message) for message in messages[:3])


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {"messages": value}
    messages = [as_dict(message, "a message") for message in as_list(fields.get("messages"), "messages")]
    chat = Chat()
    instructions = [m["instructions"] for m in messages if isinstance(m.get("instructions"), str) and m["instructions"]]
    chat.say("system", instructions[-1] if instructions else None)
    for message in messages:
        parts = [as_dict(part, "a part") for part in as_list(message.get("parts"), "parts")]
        if message.get("kind") == "response":
            _answer(chat, parts)
        else:
            for part in parts:
                _tell(chat, part)
    named = (identity(message.get("conversation_id")) for message in messages)
    return Run(
        place=record.place,
        protocol="openai",
        request={"messages": chat.messages()},
        local_id=identity(fields.get("id")),
        task=next(filter(None, named), None),
        only_session=True,
    )


def _answer(chat: Chat, parts: list[Json]) -> None:
    said = [{"type": "text", "text": part.get("content")} for part in parts if part.get("part_kind") == "text"]
    thoughts = [part.get("content") for part in parts if part.get("part_kind") == "thinking"]
    calls = [
        tool_call(part.get("tool_name", ""), part.get("args"), identity(part.get("tool_call_id")))
        for part in parts
        if part.get("part_kind") == "tool-call"
    ]
    reasoning = "\n\n".join(text for text in thoughts if isinstance(text, str) and text)
    chat.answer(said or None, calls, reasoning=reasoning or None)


def _tell(chat: Chat, part: Json) -> None:
    kind, content = part.get("part_kind"), part.get("content")
    if kind == "system-prompt":
        chat.say("system", content)
    elif kind == "tool-return" or (kind == "retry-prompt" and identity(part.get("tool_name"))):
        told = content if isinstance(content, str | dict | list | None) else str(content)
        chat.result(identity(part.get("tool_call_id")), told)
    elif kind in ("user-prompt", "retry-prompt", "retry-feedback"):
        chat.say("user", _parts(content))


def _parts(content: Any) -> Any:
    """A prompt with its images and files in the wire form's spelling."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "image_url", "image_url": {"url": dig(part, "url") or f"data:;base64,{dig(part, 'data')}"}}
        if isinstance(part, dict) and part.get("kind") != "text"
        else dig(part, "content") or part
        for part in content
    ]


READERS = whole_or_in_pieces(
    Format(
        "pydantic_ai", "Pydantic AI histories (`kind`: request, response; `parts` with `part_kind`)", _recognises, _read
    ),
    Pieces("messages", "Pydantic AI messages one by one", is_message),
)
