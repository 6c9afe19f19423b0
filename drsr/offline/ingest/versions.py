"""Versions of a recorded run, and which of them is current.

What a file says about a run is compared with the run's current row:

    the run is new                      a first version
    the same content                    nothing
    the same words, other facts         task, domain and reward are noted; labels and features stay
    other content, never seen           a next version, which supersedes the current one
    other content, an older version's   that version is current again, and with it all that was derived from it
    other content, from a file that     it begins with the current one: a later export, which supersedes it
      never held the current one        the current one begins with it: an earlier export, nothing
                                        else: a fork, a run of its own in the same group
                                        it cannot be compared: a conflict; what the catalog has stays
    anything, of a run that was only    the run has its text now; other content supersedes what was imported
      imported, and never read here

Files are read in the order of their locations by every worker, so of two disagreeing files the first wins each time.
A fork is named after the run and its file, so that it keeps its name as it grows. A run keeps the group and the split
of its first version, whatever task later content names: what was seen in training never becomes a test. Superseded rows
stay: what was derived from them is stale, not gone. A run that vanished from its file stays current.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from drsr.offline.catalog.statements import among, insert_all, insert_new, next_row_number, rows_named
from drsr.offline.catalog.tables import Trajectory, TrajectoryFile, TrajectoryReward
from drsr.offline.ingest.same_run import Compare, Relation


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
    split: str
    superseded_by: int | None = None
    id: int | None = None
    """None until stored."""
    blob: str | None = None
    """Key of its bytes."""
    files: set[int] = field(default_factory=set)
    """Ids of the files that hold it or once held it."""
    changed: bool = False
    """A stored row whose `superseded_by` must be updated."""


class Runs:
    """The versions of those runs of one source that a batch is about. Look up, take everything, write once.

    The caller holds the catalog's write lock from before the look-up until after the write.
    """

    def __init__(
        self,
        connection: Connection,
        source_id: int,
        external_ids: Sequence[str],
        blobs: Mapping[str, str],
        compare: Compare | None = None,
    ) -> None:
        """`blobs` has the artifact key of every content; without `compare` files that disagree are in conflict."""
        self.added = 0
        """Runs seen for the first time."""
        self.superseded = 0
        """Runs whose current content is another one than before."""
        self.unchanged = 0
        self._connection = connection
        self._source_id = source_id
        self._blobs = blobs
        self._compare = compare
        self.earlier = 0
        """Earlier exports of runs that another file holds whole: nothing is recorded of them."""
        self.changed_ids: list[int] = []
        """Row numbers of the versions that stopped being current with `write`, or are so again."""
        self._versions: dict[str, list[_Version]] = {}
        self._splits: dict[str, str] = {}
        """Of the groups of stored versions."""
        self._new: list[tuple[_Version, ReadTrajectory]] = []
        self._new_holders: list[tuple[_Version, int]] = []
        self._new_rewards: list[dict[str, Any]] = []
        """Of runs that were imported without their text, which says what they scored."""
        self._amended: list[tuple[_Version, ReadTrajectory]] = []
        """Runs that say the same as before, with what else is known of them now."""
        if external_ids:
            self._look_up(external_ids)

    def take(self, read: ReadTrajectory, file_id: int, location: str) -> bool:
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
        is_known = next((version for version in versions if version.content_hash == read.content_hash), None)
        related = self._relation(current, read) if current.files else Relation.LONGER
        if related is Relation.SAME:
            self.unchanged += 1
            self._amended.append((current, read))
            self._hold(current, file_id)
            return True
        if file_id in current.files or related is Relation.LONGER:
            self._supersede(current, is_known or self._append(versions, read), file_id)
            return True
        if related is Relation.SHORTER:
            self.unchanged += 1
            self.earlier += 1
            return True
        fork = self._as_fork(current, read, location)
        is_recorded = any(version.content_hash == read.content_hash for version in self._versions[fork.external_id])
        return (related is not None or is_recorded) and self.take(fork, file_id, location)

    def _supersede(self, current: _Version, successor: _Version, file_id: int) -> None:
        self.superseded += 1
        current.superseded_by, current.changed = successor.number, True
        successor.superseded_by, successor.changed = None, True
        self._hold(successor, file_id)

    def _relation(self, current: _Version, read: ReadTrajectory) -> Relation | None:
        if self._compare is None or current.blob is None:
            return None
        return self._compare(current.blob, self._blobs[read.content_hash])

    def _as_fork(self, current: _Version, read: ReadTrajectory, location: str) -> ReadTrajectory:
        """Return it as a separate run, on the same side of the split, whose versions are looked up."""
        name = f"{read.external_id}~{hashlib.sha256(location.encode()).hexdigest()[:8]}"
        if name not in self._versions:
            self._versions[name] = []
            self._look_up([name])
        return replace(read, external_id=name, group_key=current.group_key, split=current.split)

    @property
    def first_versions(self) -> list[ReadTrajectory]:
        """Return the runs taken as first versions: their groups must have a split before `write`."""
        return [read for version, read in self._new if version.number == 1]

    @property
    def new_ids(self) -> list[int]:
        """Row numbers of the versions that `write` added."""
        return [version.id for version, _ in self._new if version.id is not None]

    def write(self, splits: Mapping[str, str]) -> None:
        """Write what was taken. `splits` has the split of every first version's group."""
        versions = [version for versions in self._versions.values() for version in versions]
        changed = [version for version in versions if version.id is not None and version.changed]
        self.changed_ids = [version.id for version in changed if version.id is not None]
        self._write_changes(changed)
        self._write_new({**self._splits, **splits})
        holders = [{"trajectory_id": version.id, "source_file_id": file_id} for version, file_id in self._new_holders]
        insert_new(self._connection, TrajectoryFile, holders)
        insert_new(self._connection, TrajectoryReward, self._new_rewards)
        for version, read in self._amended:
            self._amend(version, read)

    def _amend(self, version: _Version, read: ReadTrajectory) -> None:
        """Note what a later recording of the same words adds. The bytes stay as they were read."""
        facts = {name: read.facts[name] for name in ("task", "domain") if read.facts.get(name) is not None}
        if facts:
            self._connection.execute(update(Trajectory).where(Trajectory.id == version.id).values(facts))
        if read.reward is not None:
            score = {"trajectory_id": version.id, "reward": read.reward}
            insert_new(self._connection, TrajectoryReward, [score])
            mine = update(TrajectoryReward).where(TrajectoryReward.trajectory_id == version.id)
            self._connection.execute(mine.values(reward=read.reward))

    def _append(self, versions: list[_Version], read: ReadTrajectory) -> _Version:
        group_key = versions[0].group_key if versions else read.group_key
        split = versions[0].split if versions else read.split
        version = _Version(len(versions) + 1, read.content_hash, group_key, split)
        version.blob = self._blobs.get(read.content_hash)
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
            Trajectory.blob,
        )
        of = Trajectory.external_id
        rows = rows_named(self._connection, columns, of, external_ids, source_id=self._source_id)
        by_id: dict[int, _Version] = {}
        for number, row_id, external_id, content_hash, superseded_by, group, split, blob in sorted(rows):
            by_id[row_id] = _Version(number, content_hash, group, split, superseded_by, row_id, blob)
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

    def _write_new(self, splits: Mapping[str, str]) -> None:
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
                    "blob": self._blobs[content.content_hash],
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
