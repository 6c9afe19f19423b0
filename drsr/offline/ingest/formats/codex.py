"""Codex rollouts: one object per line with `type` and `payload`; older rollouts have the items without a wrapper.

The items themselves are Responses items (`responses_items`), also read where they stand alone as lines or in a list.
The system text is the session's `base_instructions`. A `compacted` line replaces the history and starts a new stretch
(`compaction`); a rollback takes turns away. Everything else (`event_msg`, `turn_context`) repeats or annotates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, text_of
from drsr.offline.ingest.formats.compaction import stretch_run, with_an_answer
from drsr.offline.ingest.formats.reader import Found, Reader, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.formats.responses_items import ITEM_TYPES, Items
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_LINE_TYPES = frozenset({"session_meta", "response_item", "turn_context", "event_msg", "compacted"})
_NO_TURN = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<turn_aborted>")
"""The first words of user items that Codex adds by itself: they do not start a turn of the user's."""


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if isinstance(kind, str) and isinstance(value.get("payload"), dict):
        return kind in _LINE_TYPES
    if value == {"record_type": "state"}:
        return True
    if isinstance(kind, str) and kind in ITEM_TYPES:
        return not value.keys().isdisjoint(("call_id", "summary", "status", "encrypted_content"))
    return _is_bare_message(value)


def _is_bare_message(value: Json) -> bool:
    content = value.get("content")
    parts = content if isinstance(content, list) and isinstance(value.get("role"), str) else []
    return any(dig(part, "type") in ("input_text", "output_text") for part in parts)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    session: str | None = None
    system: Any = None
    items: list[Json] = []
    preserved = 0
    stretches: list[tuple[list[Json], int]] = []
    origin: str | None = None
    for record in records:
        kind, payload = _line(record.value)
        if kind == "session_meta" and session is None:
            session, system = identity(payload.get("id")), _instructions(payload)
            origin = identity(payload.get("forked_from_id"))
        elif kind == "response_item":
            items.append(payload)
        elif kind == "compacted":
            stretches.append((items, preserved))
            items = _replacement(payload, items)
            preserved = len(items)
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            items = _rolled_back(items, payload.get("num_turns"))
            preserved = min(preserved, len(items))
    stretches.append((items, preserved))
    runs = []
    for stretch, (sent, kept) in enumerate(stretches):
        request: Json = {"messages": _messages(sent, system, kept, cut=stretch > 0)}
        runs.append(stretch_run(file.location, request, session, stretch, task=origin or session))
    yield from with_an_answer(runs)


def _line(value: Any) -> tuple[str, Json]:
    """A line's type and payload, whichever of the two forms it has."""
    if not isinstance(value, dict):
        return "", {}
    if isinstance(value.get("payload"), dict):
        return str(value.get("type")), value["payload"]
    if "type" in value or "role" in value:
        return "response_item", value
    return ("session_meta", value) if "id" in value else ("", {})  # the first line of older rollouts


def _instructions(meta: Json) -> Any:
    base = meta.get("base_instructions")
    return dig(base, "text") or (base if isinstance(base, str) else None) or meta.get("instructions")


def _messages(items: list[Json], system: Any, preserved: int, *, cut: bool) -> list[Json]:
    """The messages of a stretch, of whose items the first so many are what a compaction left."""
    chat = Chat(cut=cut)
    chat.say("system", system)
    feed = Items(chat)
    for item in items[:preserved]:
        feed.add(item)
    feed.flush()
    chat.only_history()
    for item in items[preserved:]:
        feed.add(item)
    feed.flush()
    return chat.messages()


def _replacement(payload: Json, items: list[Json]) -> list[Json]:
    """The history after a compaction: as the rollout records it, else the user's messages and the summary."""
    history = payload.get("replacement_history")
    if isinstance(history, list):
        return [item for item in history if isinstance(item, dict)]
    summary = {"type": "message", "role": "user", "content": payload.get("message")}
    return [*(item for item in items if item.get("role") in ("user", "developer")), summary]


def _rolled_back(items: list[Json], turns: Any) -> list[Json]:
    starts = [index for index, item in enumerate(items) if item.get("role") == "user" and _starts_turn(item)]
    if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1 or not starts:
        return items
    return items[: starts[max(len(starts) - turns, 0)]]


def _starts_turn(item: Json) -> bool:
    return not text_of(item.get("content")).lstrip().startswith(_NO_TURN)


READERS = (
    Reader(
        "codex",
        2,
        "Codex rollouts and other lists of Responses items (`session_meta`, `response_item`)",
        _recognises,
        _read,
        grouping="session",
        resembles_chat=True,
    ),
)
