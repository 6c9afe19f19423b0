"""The order of a Claude Code session's lines: that of the file, except that none comes before its parent.

Lines are written when something is done, and of two that are done at once the later one may be written first: a result
may stand one line before the call that it answers.
"""

from __future__ import annotations

from drsr.offline.ingest.formats.claude_code_compaction import uuids
from drsr.offline.ingest.trajectories import Json


def in_order(lines: list[Json]) -> list[Json]:
    """The same lines, each that stands before its parent moved directly behind it."""
    places = uuids(lines)
    waiting: dict[int, list[int]] = {}
    ordered: list[Json] = []
    for index, line in enumerate(lines):
        parent = places.get(str(line.get("parentUuid")), -1)
        if parent > index:
            waiting.setdefault(parent, []).append(index)
            continue
        ready = [index]
        while ready:
            at = ready.pop()
            ordered.append(lines[at])
            ready.extend(reversed(waiting.pop(at, [])))
    return ordered
