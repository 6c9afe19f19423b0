"""What an ingest hands to the catalog, made by hand."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.ingest.records import Part, ReadFile, Recorded, record
from drsr.offline.ingest.versions import ReadTrajectory

FACTS: dict[str, Any] = {
    "protocol": "openai",
    "reader": "openai_chat/1",
    "task": None,
    "domain": None,
    "messages": 3,
    "assistant_messages": 1,
    "tool_calls": 0,
}


def hash_of(content: str) -> str:
    """Something that looks like a hash and can be recognised."""
    return content.encode().hex().ljust(64, "0")[:64]


def run(
    external_id: str, content: str, *, group: str | None = None, split: str = "train", reward: float | None = None
) -> ReadTrajectory:
    return ReadTrajectory(external_id, hash_of(content), group or f"run:{external_id}", split, FACTS, reward)


def part(
    location: str, *runs: ReadTrajectory, source: str = "s", stamp: str | None = "1", is_last: bool = True
) -> Part:
    return Part(ReadFile(source, location, stamp), list(runs), is_last)


def record_parts(catalog: Catalog, *parts: Part) -> Recorded:
    blobs = {read.content_hash: f"blob of {read.content_hash}" for one in parts for read in one.trajectories}
    with catalog.writing() as connection:
        return record(connection, parts, blobs)


def versions(connection: Connection) -> list[tuple[str, str, int, str, int | None]]:
    """(source, run, version, content, superseded by) of every row, in order."""
    query = select(
        Source.name, Trajectory.external_id, Trajectory.version, Trajectory.content_hash, Trajectory.superseded_by
    ).join(Source, Trajectory.source_id == Source.id)
    rows = connection.execute(query.order_by(Source.name, Trajectory.external_id, Trajectory.version))
    return [
        (source, run_id, number, bytes.fromhex(content).decode().rstrip("\0"), by)
        for source, run_id, number, content, by in rows
    ]
