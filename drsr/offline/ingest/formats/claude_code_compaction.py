"""What a compaction of a Claude Code session kept word for word: its boundary line names the messages.

    compactMetadata.preservedMessages.uuids               each of them
    compactMetadata.preservedSegment.headUuid, tailUuid   in older sessions the first and the last of them

They are written once, before the boundary; the model sees them behind the summary.
"""

from __future__ import annotations

from drsr.offline.ingest.formats.reader import dig
from drsr.offline.ingest.trajectories import Json


def uuids(lines: list[Json]) -> dict[str, int]:
    """The place of each line that has a name."""
    return {line["uuid"]: index for index, line in enumerate(lines) if isinstance(line.get("uuid"), str)}


def preserved_lines(lines: list[Json], boundary: int) -> list[int]:
    """The places of what the compaction at a line preserved, in order; nothing where it is no compaction."""
    metadata = dig(lines[boundary], "compactMetadata") or dig(lines[boundary], "compact_metadata")
    places = uuids(lines[:boundary])
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
