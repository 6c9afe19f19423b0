"""Claude Code sessions: one line per event, with `uuid` and `parentUuid`; also the stream that `claude -p` prints.

One message of the model stands on several lines with the same `message.id`, results in between: it is put together.
A session that was rewound has abandoned branches; the last line's ancestors are the run, and with them the other pieces
of their messages and the results of their calls. Lines are not always written in order: each follows its parent, even
where it stands before it (of two things done at once the later one may be written first: a result one line before its
call). A compaction starts a new stretch (`compaction`); the messages that it preserved are written once, before its
boundary line, which names them; the model sees them behind the summary. Sub-agents (`isSidechain`) are runs of their
own. Lines that are no messages, and errors that the program made up, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.anthropic_form import Turns
from drsr.offline.ingest.formats.compaction import stretch_id, with_an_answer
from drsr.offline.ingest.formats.reader import Found, Reader, Run, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_MARKS = ("sessionId", "session_id", "uuid", "parentUuid", "isSidechain")
_SYNTHETIC = "<synthetic>"
"""The model of what the program itself says in the assistant's place."""
_OTHER_LINES = {
    "summary": "leafUuid",
    "file-history-snapshot": "snapshot",
    "queue-operation": "operation",
    "progress": "sessionId",
    "system": "subtype",
    "result": "session_id",
}
"""Types of lines that hold no message, each with a field that distinguishes it from other formats' lines."""


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    if _is_message(value):
        return not value.keys().isdisjoint(_MARKS)
    return _OTHER_LINES.get(value["type"], "\0") in value


def _is_message(line: Any) -> bool:
    return dig(line, "type") in ("user", "assistant") and isinstance(dig(line, "message", "role"), str)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    lines = [record.value for record in records if isinstance(record.value, dict)]
    chains: dict[str, list[Json]] = {}
    for line in lines:
        chains.setdefault(_chain_name(line), []).append(line)
    main = chains.pop("", [])
    if not any(map(_begins_stretch, main)):  # where one does, lines before it are found by their places
        main = in_order(_by_time(main))
    session = _session(main) or _session(lines)
    runs = []
    for stretch, (part, preserved) in enumerate(_stretches(main)):
        name = stretch_id(session, stretch)
        runs.append(_run(part, file, name, session, cut=stretch > 0, preserved=preserved))
    answered = with_an_answer(runs) if any(map(_is_message, main)) else []
    yield from answered
    for name, chain in chains.items():
        if any(map(_is_message, chain)):
            yield _run(in_order(chain), file, f"{session}/{name}" if session else None, session, cut=False)


def _chain_name(line: Json) -> str:
    """Return which conversation of the file a line belongs to: "" for the main one, else the sub-agent's name."""
    caller = line.get("parent_tool_use_id")
    if line.get("isSidechain") is True or isinstance(caller, str):
        return f"agent-{identity(line.get('agentId')) or identity(caller) or 'sidechain'}"
    return ""


def _session(lines: list[Json]) -> str | None:
    """The id of the file's own session: a resumed session's file starts with lines of the one before."""
    for line in reversed(lines):
        found = identity(line.get("sessionId")) or identity(line.get("session_id"))
        if found:
            return found
    return None


def _run(
    lines: list[Json],
    file: SourceFile,
    name: str | None,
    session: str | None,
    *,
    cut: bool,
    preserved: frozenset[str] = frozenset(),
) -> Run:
    """The run that lines make. `preserved` names those that were decided before a compaction."""
    turns = Turns(cut=cut)
    for line in lines:
        if not _is_message(line) or line.get("isApiErrorMessage") is True:
            continue
        message = line["message"]
        if message["role"] == "assistant":
            decided = message.get("model") != _SYNTHETIC and str(line.get("uuid")) not in preserved
            turns.assistant(message.get("content"), message_id=identity(message.get("id")), decided=decided)
        elif message["role"] == "user":
            turns.user(message.get("content"))
    request = {"messages": turns.messages()}
    return Run(file.location, "anthropic", request, run_id=name, task=session, domain="code", only_session=True)


def _stretches(lines: list[Json]) -> list[tuple[list[Json], frozenset[str]]]:
    """The main conversation, cut at its compactions, abandoned branches left out; with the names of what the compaction
    before a stretch preserved."""
    stretches: list[tuple[list[Json], frozenset[str]]] = []
    end = len(lines)
    while end > 0:
        chain, start = _ancestors(lines[:end])
        stretches.append(_with_preserved(lines, _with_siblings(lines[:end], chain), start))
        end = start if start > 0 and _begins_stretch(lines[start]) else 0
    return stretches[::-1]


def _begins_stretch(line: Json) -> bool:
    return _is_boundary(line) or line.get("isCompactSummary") is True


def _is_boundary(line: Json) -> bool:
    return line.get("subtype") == "compact_boundary"


def _with_preserved(lines: list[Json], stretch: list[int], start: int) -> tuple[list[Json], frozenset[str]]:
    """The lines of a stretch; what the compaction before it preserved comes right after its summary."""
    boundary = start  # or, where that is the summary, the line before it that is no message
    while boundary > 0 and not _is_boundary(lines[boundary]) and not _is_message(lines[boundary - 1]):
        boundary -= 1
    preserved = [index for index in _preserved_lines(lines, boundary) if index not in stretch]
    summary = max((index for index in stretch if lines[index].get("isCompactSummary") is True), default=start)
    behind = [index for index in stretch if index > summary]
    parts = (stretch[: len(stretch) - len(behind)], preserved, behind)
    ordered = [line for part in parts for line in in_order([lines[index] for index in part])]
    return ordered, frozenset(str(lines[index].get("uuid")) for index in preserved)


def _ancestors(lines: list[Json]) -> tuple[set[int], int]:
    """Indexes of the last message and of everything it follows from, and the smallest of them."""
    by_uuid = _uuids(lines)
    summaries = _summaries_behind(lines)
    at: int | None = max((index for index, line in enumerate(lines) if _is_message(line)), default=len(lines) - 1)
    chain: set[int] = set()
    start = at or 0
    while at is not None and at not in chain:
        chain.add(at)
        start = at
        line = lines[at]
        if _begins_stretch(line) or line.get("parentUuid", "") is None:
            break
        parent = line.get("parentUuid")
        # A line without a parent that is known (the printed stream, a damaged line) follows the one before it.
        at = by_uuid.get(parent) if isinstance(parent, str) else None
        if at is None:
            at = start - 1 if start > 0 else None
        elif (summary := summaries.get(at)) is not None and at < summary < start:
            at = summary
    return chain, start


def _summaries_behind(lines: list[Json]) -> dict[int, int]:
    """For each preserved line the place of the latest compaction that preserved it: what follows it goes on there."""
    found: dict[int, int] = {}
    for boundary, line in enumerate(lines):
        if _is_boundary(line):
            summary = next((at for at in range(boundary, len(lines)) if _is_message(lines[at])), boundary)
            place = summary if lines[summary].get("isCompactSummary") is True else boundary
            found |= dict.fromkeys(_preserved_lines(lines, boundary), place)
    return found


def _with_siblings(lines: list[Json], chain: set[int]) -> list[int]:
    """The places of a chain's lines, of the other pieces of its messages and of the results of its calls, in order."""
    messages = {_message_id(lines[index]) for index in chain} - {None}
    kept = set(chain)
    calls: set[str] = set()
    for index, line in enumerate(lines):
        if line.get("type") != "assistant":
            continue
        if index in kept or _message_id(line) in messages:
            kept.add(index)
            calls.update(_ids(line, "tool_use", "id"))
    first = min(chain, default=0)
    for index, line in enumerate(lines):
        if (
            index > first
            and line.get("type") == "user"
            and not calls.isdisjoint(_ids(line, "tool_result", "tool_use_id"))
        ):
            kept.add(index)
    return sorted(kept)


def _message_id(line: Json) -> str | None:
    return identity(dig(line, "message", "id")) if line.get("type") == "assistant" else None


def _ids(line: Json, kind: str, key: str) -> set[str]:
    content = dig(line, "message", "content")
    blocks = content if isinstance(content, list) else []
    return {block[key] for block in blocks if dig(block, "type") == kind and isinstance(dig(block, key), str)}


def _uuids(lines: list[Json]) -> dict[str, int]:
    """The place of each line that has a name."""
    return {line["uuid"]: index for index, line in enumerate(lines) if isinstance(line.get("uuid"), str)}


def _preserved_lines(lines: list[Json], boundary: int) -> list[int]:
    """Return the places of what the compaction at a line preserved, in order; nothing if it is not a compaction. Its
    boundary names each (`preservedMessages`) or, in older sessions, the first and the last (`preservedSegment`)."""
    metadata = dig(lines[boundary], "compactMetadata") or dig(lines[boundary], "compact_metadata")
    places = _uuids(lines[:boundary])
    named = dig(metadata, "preservedMessages", "uuids") or dig(metadata, "preserved_messages", "uuids")
    if isinstance(named, list):
        return sorted(places[name] for name in named if isinstance(name, str) and name in places)
    segment = dig(metadata, "preservedSegment") or dig(metadata, "preserved_segment")
    head = places.get(str(dig(segment, "headUuid") or dig(segment, "head_uuid")))
    at = places.get(str(dig(segment, "tailUuid") or dig(segment, "tail_uuid")))
    found: set[int] = set()
    while at is not None and at not in found:
        found.add(at)
        if at == head:
            return sorted(found)
        at = places.get(str(lines[at].get("parentUuid")))
    return []  # a segment whose ends do not hang together


def _by_time(lines: list[Json]) -> list[Json]:
    """Sort the lines by time if one stands before its parent: nothing else shows then which branch is the last."""
    places = _uuids(lines)
    if all(places.get(str(line.get("parentUuid")), -1) <= index for index, line in enumerate(lines)):
        return lines
    return sorted(lines, key=lambda line: str(line.get("timestamp") or ""))


def in_order(lines: list[Json]) -> list[Json]:
    """Return the same lines; any line before its parent is moved directly after it, with all that follow from it."""
    places = _uuids(lines)
    waiting: dict[int, list[int]] = {}
    ordered: dict[int, Json] = {}
    for index, line in enumerate(lines):
        parent = places.get(str(line.get("parentUuid")), index)
        if parent != index and parent not in ordered:
            waiting.setdefault(parent, []).append(index)
            continue
        ready = [index]
        while ready:
            at = ready.pop()
            ordered[at] = lines[at]
            ready.extend(reversed(waiting.pop(at, [])))
    ring = [line for index, line in enumerate(lines) if index not in ordered]  # and what hangs on it
    return [*ordered.values(), *ring]


READERS = (
    Reader(
        "claude_code",
        3,
        "Claude Code sessions (`sessionId`, `uuid`, `message`)",
        _recognises,
        _read,
        grouping="session",
    ),
)
