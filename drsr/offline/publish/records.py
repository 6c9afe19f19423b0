"""Released policies in the catalog: found by version or by what they freeze, recorded once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.statements import insert_all


class ReleaseRecord(NamedTuple):
    """A row of `policy_release`; the table explains each column."""

    id: int
    version: str
    calibration_run_id: int
    identity: str
    file_name: str
    wheel: str
    size: int
    lineage: str
    states: str
    abstains_always: bool
    requires: str
    golden_requests: int
    gates: list[Any]
    index_location: str
    code_version: str
    published_at: datetime.datetime

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"published_at": self.published_at.isoformat(timespec="seconds")}


def find_release(connection: Connection, version: str) -> ReleaseRecord | None:
    """Return the release of this version."""
    row = connection.execute(_releases().where(PolicyRelease.version == version)).one_or_none()
    return None if row is None else ReleaseRecord(*row)


def releases_of(connection: Connection, calibration_run_id: int) -> list[ReleaseRecord]:
    """Return the releases of a calibration, newest first."""
    query = _releases().where(PolicyRelease.calibration_run_id == calibration_run_id)
    return [ReleaseRecord(*row) for row in connection.execute(query.order_by(PolicyRelease.id.desc()))]


def latest_releases(connection: Connection, limit: int) -> list[ReleaseRecord]:
    """Return all of them, newest first."""
    query = _releases().order_by(PolicyRelease.published_at.desc(), PolicyRelease.id.desc()).limit(limit)
    return [ReleaseRecord(*row) for row in connection.execute(query)]


def record_release(connection: Connection, row: Mapping[str, Any]) -> ReleaseRecord:
    """Record a release in the caller's write transaction. Each version can be recorded once."""
    insert_all(connection, PolicyRelease, [row])
    found = find_release(connection, row["version"])
    assert found is not None  # it was inserted just now
    return found


def _releases() -> Select[Any]:
    return select(*(getattr(PolicyRelease, field) for field in ReleaseRecord._fields))
