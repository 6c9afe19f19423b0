"""Versions of a recorded run, and which of them is current.

What a file says about a run is compared with the run's current row:

    the run is new                      a first version
    the same content                    nothing
    other content, never seen           a next version, which supersedes the current one
    other content, an older version's   that version is current again, and with it all that was derived from it
    other content, from a file that     a conflict: two files disagree about one run; what the catalog has stays,
      never held the current one        and what the file says is refused
    anything, of a run that was only    the run has its text now; other content supersedes what was imported
      imported, and never read here

Files are read in the order of their locations by every worker, so of two disagreeing files the first wins each time.
A run keeps the group and the split of its first version, whatever task later content names: what was seen in training
never becomes a test. Superseded rows stay: what was derived from them is stale, not gone. A run that vanished from its
file stays current.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from drsr.offline.catalog.statements import among, insert_all, insert_new, next_row_number, rows_named
from drsr.offline.catalog.tables import Trajectory, TrajectoryFile, TrajectoryReward


@dataclass(frozen=True, slots=True)
class ReadTrajectory:
    """A trajectory as it was read from a file, ready to be recorded."""

    external_id: str
    content_hash: str
    group_key: str
    split: str
    """The split of its group, should the group be new."""
    facts: dict[str, Any]
    """Columns of `Trajectory` that follow from the content: protocol, reader, task, domain, messages, ..."""
    reward: float | None


@dataclass(slots=True)
class _Version:
    """A row of `trajectory`, stored or about to be."""

    number: int
    content_hash: str
    group_key: str
    superseded_by: int | None = None
    id: int | None = None
    """None until stored."""
    files: set[int] = field(default_factory=set)
    """Ids of the files that hold it or once held it."""
    changed: bool = False
    """A stored row whose `superseded_by` must be updated."""


class Runs:
    """The versions of those runs of one source that a batch is about. Look up, take everything, write once.

    The caller holds the catalog's write lock from before the look-up until after the write.
    """

    def __init__(self, connection: Connection, source_id: int, external_ids: Sequence[str]) -> None:
        self.added = 0
        """Runs seen for the first time."""
        self.superseded = 0
        """Runs whose current content is another one than before."""
        self.unchanged = 0
        self._connection = connection
        self._source_id = source_id
        self._versions: dict[str, list[_Version]] = {}
        self._splits: dict[str, str] = {}
        """Of the groups of stored versions."""
        self._new: list[tuple[_Version, ReadTrajectory]] = []
        self._new_holders: list[tuple[_Version, int]] = []
        self._new_rewards: list[dict[str, Any]] = []
        """Of runs that were imported without their text, which says what they scored."""
        if external_ids:
            self._look_up(external_ids)

    def take(self, read: ReadTrajectory, file_id: int) -> bool:
        """Take over what a file says about a run; False when another file disagrees and was first."""
        versions = self._versions.setdefault(read.external_id, [])
        current = next((version for version in versions if version.superseded_by is None), None)
        if current is None:
            self.added += 1
            self._hold(self._append(versions, read), file_id)
            return True
        if current.content_hash == read.content_hash:
            self.unchanged += 1
            if not current.files and read.reward is not None and current.id is not None:
                self._new_rewards.append({"trajectory_id": current.id, "reward": read.reward})
            self._hold(current, file_id)
            return True
        if current.files and file_id not in current.files:
            return False
        self.superseded += 1
        same = next((version for version in versions if version.content_hash == read.content_hash), None)
        successor = same or self._append(versions, read)
        current.superseded_by, current.changed = successor.number, True
        successor.superseded_by, successor.changed = None, True
        self._hold(successor, file_id)
        return True

    @property
    def first_versions(self) -> list[ReadTrajectory]:
        """Return the runs taken as first versions: their groups must have a split before `write`."""
        return [read for version, read in self._new if version.number == 1]

    def write(self, splits: Mapping[str, str], blobs: Mapping[str, str]) -> None:
        """Write what was taken. `splits` has the split of every first version's group, `blobs` the artifact key of
        every content."""
        versions = [version for versions in self._versions.values() for version in versions]
        self._write_changes([version for version in versions if version.id is not None and version.changed])
        self._write_new({**self._splits, **splits}, blobs)
        holders = [{"trajectory_id": version.id, "source_file_id": file_id} for version, file_id in self._new_holders]
        insert_new(self._connection, TrajectoryFile, holders)
        insert_new(self._connection, TrajectoryReward, self._new_rewards)

    def _append(self, versions: list[_Version], read: ReadTrajectory) -> _Version:
        group_key = versions[0].group_key if versions else read.group_key
        version = _Version(len(versions) + 1, read.content_hash, group_key)
        versions.append(version)
        self._new.append((version, read))
        return version

    def _hold(self, version: _Version, file_id: int) -> None:
        if file_id not in version.files:
            version.files.add(file_id)
            self._new_holders.append((version, file_id))

    def _look_up(self, external_ids: Sequence[str]) -> None:
        columns = (
            Trajectory.version,
            Trajectory.id,
            Trajectory.external_id,
            Trajectory.content_hash,
            Trajectory.superseded_by,
            Trajectory.group_key,
            Trajectory.split,
        )
        of = Trajectory.external_id
        rows = rows_named(self._connection, columns, of, external_ids, source_id=self._source_id)
        by_id: dict[int, _Version] = {}
        for number, row_id, external_id, content_hash, superseded_by, group, split in sorted(rows):
            by_id[row_id] = _Version(number, content_hash, group, superseded_by, row_id)
            self._splits[group] = split
            self._versions.setdefault(external_id, []).append(by_id[row_id])
        if not by_id:
            return
        of_these = (Trajectory.source_id == self._source_id, among(self._connection, of, external_ids))
        holders = select(TrajectoryFile.trajectory_id, TrajectoryFile.source_file_id).join(Trajectory).where(*of_these)
        for trajectory_id, file_id in self._connection.execute(holders):
            by_id[trajectory_id].files.add(file_id)

    def _write_changes(self, changed: list[_Version]) -> None:
        if not changed:
            return
        # What stops being current goes first: no two rows of a run are current at any moment.
        changed.sort(key=lambda version: version.superseded_by is None)
        rows = [{"row": version.id, "by": version.superseded_by} for version in changed]
        statement = update(Trajectory).where(Trajectory.id == bindparam("row")).values(superseded_by=bindparam("by"))
        for row in rows:
            self._connection.execute(statement, row)

    def _write_new(self, splits: Mapping[str, str], blobs: Mapping[str, str]) -> None:
        number_of_row = next_row_number(self._connection, Trajectory)
        now = datetime.datetime.now(datetime.UTC)
        rows: list[dict[str, Any]] = []
        rewards: list[dict[str, Any]] = []
        for version, content in self._new:
            version.id = number_of_row + len(rows)
            rows.append(
                {
                    "id": version.id,
                    "source_id": self._source_id,
                    "external_id": content.external_id,
                    "version": version.number,
                    "superseded_by": version.superseded_by,
                    "content_hash": content.content_hash,
                    "blob": blobs[content.content_hash],
                    "group_key": version.group_key,
                    "split": splits[version.group_key],
                    "created_at": now,
                    **content.facts,
                }
            )
            if content.reward is not None:
                rewards.append({"trajectory_id": version.id, "reward": content.reward})
        insert_all(self._connection, Trajectory, rows)
        insert_all(self._connection, TrajectoryReward, rewards)
