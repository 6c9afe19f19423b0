"""Keeping what an ingest reads: bytes into the artifact store, then rows into the catalog, a batch at a time.

The order makes it safe to be killed anywhere: first the bytes are stored under their hash, then one transaction records
everything of the batch, and with a file's last trajectory its stamp. The bytes of a batch are compressed and written in
a thread of their own while the next batch is being read; that thread holds Python's lock for moments only.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest import records
from drsr.offline.ingest.records import Part, ReadFile
from drsr.offline.ingest.same_run import compare_stored
from drsr.offline.ingest.versions import ReadTrajectory
from drsr.offline.store.artifacts import Artifact, ArtifactStore

BATCH_TRAJECTORIES, BATCH_BYTES, BATCH_FILES = 500, 8_000_000, 1_000
"""A batch is recorded when it has reached any of these; so memory does not grow with the number or size of files."""


@dataclass(slots=True)
class IngestSummary:
    """The summary of an ingest, as far as it is recorded."""

    files: int = 0
    """Files looked at."""
    unchanged_files: int = 0
    """Of these, files that were not read, because they are as they were."""
    hidden: int = 0
    """Files and folders that were passed over because their names begin with a dot."""
    added: int = 0
    """Runs seen for the first time."""
    superseded: int = 0
    """Runs that have other content than before."""
    unchanged: int = 0
    """Runs that were read and found as recorded."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Things in the files read now that could not be read or were refused, by reason."""
    without_task: int = 0
    """Runs read now whose task has no name: each is a separate group."""
    only_session: int = 0
    """Of these, runs that say which session they belong to: the runs of a session are one group."""
    redacted: dict[str, int] = field(default_factory=dict)
    """Placeholders that were put in, by rule."""
    seconds: float = 0.0

    @property
    def nothing_readable(self) -> bool:
        """Return whether files were read now, and not one of them holds a run."""
        return bool(self.quarantined) and not (self.unchanged_files or self.added or self.superseded or self.unchanged)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Progress = Callable[[IngestSummary], None]
"""Called after every batch with what was done so far."""


class _Storing(NamedTuple):
    """A batch whose bytes are being stored."""

    parts: list[Part]
    known: dict[str, str]
    """Artifact keys of what was stored before."""
    stored: Future[dict[str, str]]
    """Artifact keys of the rest."""


class _Batch:
    """Runs that were read but not yet recorded."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.contents: dict[str, Artifact] = {}
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self.contents) >= BATCH_TRAJECTORIES or self.bytes >= BATCH_BYTES or len(self.parts) >= BATCH_FILES


class Recorder:
    """Takes trajectories file by file: `begin`, any number of `add`, `end`. Leaving the `with` block records the rest.

    After an exception nothing more is recorded; the next ingest reads the files that were not recorded to their end.
    """

    def __init__(self, catalog: Catalog, artifacts: ArtifactStore, progress: Progress) -> None:
        self.summary = IngestSummary()
        self._catalog = catalog
        self._artifacts = artifacts
        self._progress = progress
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drsr-artifacts")
        self._batch = _Batch()
        self._storing: _Storing | None = None
        self._open: Part | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._store()
                self._record()
        finally:
            self._thread.shutdown()

    def begin(self, file: ReadFile) -> None:
        self._open = Part(file, [], is_last=False)

    def add(self, trajectory: ReadTrajectory, artifact: Artifact) -> None:
        assert self._open is not None
        if self._batch.is_full:
            # A large file: keep what there is of it, and go on with the rest.
            self._batch.parts.append(self._open)
            self._open = Part(self._open.file, [], is_last=False)
            self._store()
        self._open.trajectories.append(trajectory)
        self._batch.contents[trajectory.content_hash] = artifact
        self._batch.bytes += len(artifact.data)

    def end(self) -> None:
        """The file was read to its end."""
        assert self._open is not None
        self._batch.parts.append(Part(self._open.file, self._open.trajectories, is_last=True))
        self._open = None
        if self._batch.is_full:
            self._store()

    def _store(self) -> None:
        """Record the batch before, then start to store the bytes of this one."""
        self._record()
        batch, self._batch = self._batch, _Batch()
        with self._catalog.reading() as connection:
            known = records.known_blobs(connection, list(batch.contents))
        new = [artifact for sha256, artifact in batch.contents.items() if sha256 not in known]
        self._storing = _Storing(batch.parts, known, self._thread.submit(self._artifacts.put_pack, new))

    def _record(self) -> None:
        """Once its bytes are stored, record the batch before this one."""
        if self._storing is None:
            return
        parts, known, stored = self._storing
        self._storing = None
        blobs = known | stored.result()
        with self._catalog.writing() as connection:
            recorded = records.record(connection, parts, blobs, compare_stored(self._artifacts))
        self.summary.added += recorded.added
        self.summary.superseded += recorded.superseded
        self.summary.unchanged += recorded.unchanged
        quarantined = self.summary.quarantined
        for file in (part.file for part in parts if part.is_last):
            for reason, count in file.reasons.items():
                quarantined[reason] = quarantined.get(reason, 0) + count
        self._progress(self.summary)
