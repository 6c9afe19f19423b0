"""Trajectories whose stored bytes are gone: their files are read again, and what is in them is stored anew.

    packs named in the catalog -> those without a file -> the trajectories in them -> the files that held these

Nothing in the catalog is changed until the bytes are stored again: the artifact root may merely be the wrong one.
A run that was imported without its text has no file yet; its bytes are taken from whichever file holds them.
"""

from __future__ import annotations

from sqlalchemy import bindparam, func, select, update

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source, SourceFile, Trajectory, TrajectoryFile
from drsr.offline.store.artifacts import Artifact, ArtifactStore

PACK_BYTES = 8_000_000
"""Bytes that are kept in memory before they are stored."""


class LostArtifacts:
    """Return what an ingest must bring back. One query and one look per pack when nothing is lost."""

    def __init__(self, catalog: Catalog, artifacts: ArtifactStore) -> None:
        self.files: set[tuple[str, str]] = set()
        """(source, location) of the files that hold something lost: they are read even if unchanged."""
        self._catalog = catalog
        self._artifacts = artifacts
        self._hashes: set[str] = set()
        self._waiting: list[Artifact] = []
        self._restored: dict[str, str] = {}
        # One key stands for its pack: after `<sha256>@` 64 digits name the pack, and a key without @ stands alone.
        pack = func.substr(Trajectory.blob, 66, 64)
        with catalog.reading() as connection:
            keys = connection.execute(select(func.min(Trajectory.blob), pack).group_by(pack).where(pack != "")).all()
            alone = connection.execute(select(Trajectory.blob).where(pack == "").distinct()).scalars().all()
            lost = artifacts.missing([key for key, _ in keys] + list(alone))
            packs = [name for key, name in keys if key in lost]
            if lost:
                self._look_up(packs, [key for key in alone if key in lost])

    def _look_up(self, packs: list[str], alone: list[str]) -> None:
        is_lost = func.substr(Trajectory.blob, 66, 64).in_(packs) | Trajectory.blob.in_(alone)
        query = (
            select(Trajectory.content_hash, Source.name, SourceFile.location)
            .outerjoin(TrajectoryFile, TrajectoryFile.trajectory_id == Trajectory.id)
            .outerjoin(SourceFile, SourceFile.id == TrajectoryFile.source_file_id)
            .outerjoin(Source, Source.id == SourceFile.source_id)
            .where(is_lost)
        )
        with self._catalog.reading() as connection:
            for content_hash, source, location in connection.execute(query):
                self._hashes.add(content_hash)
                if location is not None:
                    self.files.add((source, location))

    def offer(self, artifact: Artifact) -> None:
        """Keep it if it is among the lost ones."""
        if artifact.sha256 not in self._hashes:
            return
        self._hashes.discard(artifact.sha256)
        self._waiting.append(artifact)
        if sum(len(waiting.data) for waiting in self._waiting) >= PACK_BYTES:
            self._store()

    def restore(self) -> int:
        """Store what was kept and let the catalog know where; returns how many trajectories came back."""
        self._store()
        if self._restored:
            statement = update(Trajectory).where(Trajectory.content_hash == bindparam("of"))
            statement = statement.values(blob=bindparam("key"))
            with self._catalog.writing() as connection:
                for sha256, key in self._restored.items():
                    connection.execute(statement, {"of": sha256, "key": key})
        return len(self._restored)

    def _store(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._restored |= self._artifacts.put_pack(waiting)
