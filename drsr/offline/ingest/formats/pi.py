"""pi coding-agent sessions, and OpenClaw's: a header line, then entries; from version 2 a tree by `parentId`.

The last entry's ancestors are the run, as pi itself rebuilds a session. A compaction starts a new stretch with its
summary and the entries it keeps (`compaction`). OpenClaw's side branches and mirrors are told apart
(`openclaw_branches`). Commands that the user ran (`bashExecution`) are told to the model as the user's messages, in
pi's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.compaction import stretch_run, with_an_answer
from drsr.offline.ingest.formats.openclaw_branches import is_mirror, parents
from drsr.offline.ingest.formats.reader import Found, Reader, as_dict, as_list, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_ENTRY_TYPES = frozenset(
    {"model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message", "leaf"}
)
_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom", "hookMessage")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str) or "timestamp" not in value:
        return False
    if value["type"] == "session":
        return "cwd" in value and isinstance(value.get("id"), str)
    if value["type"] == "message":
        return dig(value, "message", "role") in _ROLES and "role" not in value
    return value["type"] in _ENTRY_TYPES and "payload" not in value


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    entries = [record.value for record in records if isinstance(record.value, dict)]
    header = next((entry for entry in entries if entry.get("type") == "session"), {})
    session = identity(header.get("id"))
    path = _path([entry for entry in entries if entry.get("type") != "session"])
    runs = []
    for stretch, (preserved, entries) in enumerate(_stretches(path)):
        chat = Chat(cut=stretch > 0)
        for entry in preserved:
            _add(chat, entry)
        chat.only_history()
        for entry in entries:
            _add(chat, entry)
        request = {"messages": chat.messages()}
        runs.append(stretch_run(file.location, request, session, stretch, task=session))
    yield from with_an_answer(runs)


def _path(entries: list[Json]) -> list[Json]:
    """The ancestors of the last entry, oldest first; all entries where the file is older than the tree."""
    by_id = {entry["id"]: entry for entry in entries if isinstance(entry.get("id"), str)}
    if not entries or "parentId" not in entries[-1]:
        return entries
    path: list[Json] = []
    seen: set[int] = set()
    before = parents(entries)
    at: Json | None = entries[-1]
    while at is not None and id(at) not in seen:
        if at.get("type") != "leaf" and not is_mirror(at):
            path.append(at)
        seen.add(id(at))
        at = by_id.get(before.get(str(at.get("id"))) or "")
    return path[::-1]


def _stretches(path: list[Json]) -> list[tuple[list[Json], list[Json]]]:
    """The path cut at its compactions: for each stretch what was preserved, and what happened since."""
    stretches: list[tuple[list[Json], list[Json]]] = []
    preserved: list[Json] = []
    current: list[Json] = []
    for entry in path:
        if entry.get("type") != "compaction":
            current.append(entry)
            continue
        stretches.append((preserved, current))
        preserved, current = [_summary(entry), *_kept(entry, [*preserved, *current])], []
    return [*stretches, (preserved, current)]


def _kept(compaction: Json, before: list[Json]) -> list[Json]:
    """The entries that a compaction keeps, by id or (first versions) by their number from the end."""
    first, last = compaction.get("firstKeptEntryId"), compaction.get("keepLastMessages")
    if isinstance(first, str):
        start = next((index for index, entry in enumerate(before) if entry.get("id") == first), len(before))
        return before[start:]
    messages = [entry for entry in before if entry.get("type") == "message"]
    return messages[-last:] if isinstance(last, int) and last > 0 else []


def _summary(entry: Json) -> Json:
    return {"type": "message", "message": {"role": "user", "content": entry.get("summary")}}


def _add(chat: Chat, entry: Json) -> None:
    kind = entry.get("type")
    if kind == "custom_message":
        chat.say("user", _parts(entry.get("content")))
    elif kind == "branch_summary":
        chat.say("user", entry.get("summary"))
    elif kind == "message":
        message = as_dict(entry.get("message"), "message")
        _add_message(chat, message, message.get("role"))


def _add_message(chat: Chat, message: Json, role: Any) -> None:
    content = message.get("content")
    if role == "assistant":
        blocks = [as_dict(block, "a content block") for block in as_list(content, "content")]
        calls = [
            tool_call(block.get("name", ""), block.get("arguments"), identity(block.get("id")))
            for block in blocks
            if block.get("type") == "toolCall"
        ]
        thoughts = [block["thinking"] for block in blocks if isinstance(block.get("thinking"), str)]
        said = [block for block in blocks if block.get("type") not in ("toolCall", "thinking")]
        chat.answer(_parts(said), calls, reasoning="\n\n".join(filter(None, thoughts)) or None)
    elif role == "toolResult":
        chat.result(message.get("toolCallId"), _parts(content), name=identity(message.get("toolName")))
    elif role == "bashExecution":
        if message.get("excludeFromContext") is not True:
            chat.say("user", f"Ran `{message.get('command')}`\n```\n{message.get('output')}\n```")
    elif role in ("user", "custom", "hookMessage"):
        chat.say("user", _parts(content))


def _parts(content: Any) -> Any:
    """Content with pi's image parts in the wire form's spelling."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "image_url", "image_url": {"url": f"data:{part.get('mimeType')};base64,{part.get('data')}"}}
        if dig(part, "type") == "image"
        else part
        for part in content
    ]


READERS = (
    Reader(
        "pi",
        2,
        "pi coding-agent and OpenClaw sessions (`type`: session, message)",
        _recognises,
        _read,
        grouping="session",
    ),
)
