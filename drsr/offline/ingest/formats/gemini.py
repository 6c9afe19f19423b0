"""Gemini: a request with `contents` (and `systemInstruction`, `tools`), a bare list of contents, or one per line.

What the model answered may stand beside the request as `candidates`, or in a `response` with them.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.gemini_form import field, is_content, read_contents, read_declarations
from drsr.offline.ingest.formats.openai_chat import first_identity
from drsr.offline.ingest.formats.reader import (
    Format,
    Pieces,
    Run,
    as_dict,
    as_list,
    dig,
    identity,
    score,
    whole_or_in_pieces,
)
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_ID_KEYS = ("trajectory_id", "run_id", "conversation_id", "session_id", "sessionId", "id", "uuid")
_TASK_KEYS = ("task_id", "instance_id", "task")


def _recognises(value: Any) -> bool:
    contents = value if isinstance(value, list) else dig(value, "contents")
    if isinstance(value, dict) and isinstance(value.get("request"), dict):
        return False
    return isinstance(contents, list) and bool(contents) and all(is_content(content) for content in contents[:3])


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    fields: Json = value if isinstance(value, dict) else {"contents": value}
    contents = as_list(fields.get("contents"), "contents")
    candidates = fields.get("candidates") or dig(fields, "response", "candidates")
    answer = dig(candidates[0], "content") if isinstance(candidates, list) and candidates else None
    chat = Chat()
    _say_system(chat, field(fields, "systemInstruction"))
    read_contents(chat, [*contents, answer] if isinstance(answer, dict) else contents)
    request: Json = {"messages": chat.messages()}
    if tools := read_declarations(fields.get("tools")):
        request["tools"] = tools
    return Run(
        place=record.place,
        protocol="openai",
        request=request,
        local_id=first_identity(fields, _ID_KEYS),
        task=first_identity(fields, _TASK_KEYS),
        domain=identity(fields.get("domain")),
        reward=score(fields.get("reward")),
    )


def _say_system(chat: Chat, instruction: Any) -> None:
    if isinstance(instruction, dict):
        parts = as_list(instruction.get("parts") or [], "systemInstruction.parts")
        instruction = [{"type": "text", "text": as_dict(part, "a part").get("text")} for part in parts]
    chat.say("system", instruction)


READERS = whole_or_in_pieces(
    Format("gemini", "Gemini requests (`contents` with `role` and `parts`)", _recognises, _read),
    Pieces("contents", "Gemini contents one by one (`role`: user, model; `parts`)", is_content),
)
