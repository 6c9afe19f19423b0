"""Nights, put together from the recorded runs of stages: what ran when, for how long, and with what result."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from drsr.offline.catalog.tables import Execution
from drsr.offline.stages import NAMES

PAUSE = datetime.timedelta(hours=1)
"""Runs that start this long after all earlier ones have ended belong to another night."""

JUDGING = datetime.timedelta(minutes=10)
"""A failure noted so long after an ingest had ended is not about what that read."""


class StageRun(NamedTuple):
    """A recorded run of a stage."""

    stage: str
    started_at: datetime.datetime
    finished_at: datetime.datetime | None
    """End of the run; None if it was killed, failed, or is still running."""
    counts: Mapping[str, Any]
    subject: str | None = None
    """What it worked on: of `ingest`, the place."""

    @property
    def is_end(self) -> bool:
        """Return whether it only notes the end of a refresh (`publish.refreshes.note_refresh`)."""
        return "stamp" in self.counts and "outcome" in self.counts

    @property
    def is_failed_ingest(self) -> bool:
        """Return whether it notes a refresh that failed in its first stage, or before."""
        failed = self.counts["outcome"].get("failed") if self.is_end else None
        return failed is not None and failed not in NAMES[1:]

    def is_after(self, other: StageRun) -> bool:
        return other.finished_at is not None and other.finished_at <= self.started_at


class Night(NamedTuple):
    """Stages that ran one after another. A run of `ingest` begins the next night."""

    runs: tuple[StageRun, ...]

    @property
    def started_at(self) -> datetime.datetime:
        return self.runs[0].started_at

    @property
    def ended_at(self) -> datetime.datetime:
        """Return the latest known moment of the night."""
        return max(run.finished_at or run.started_at for run in self.runs)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by stage in which one worker or more was at it."""
        found: dict[str, float] = {}
        ended: dict[str, datetime.datetime] = {}
        for run in self.runs:  # in the order of their starts
            if run.finished_at and not run.is_end:
                since = max(run.started_at, ended.get(run.stage, run.started_at))
                found[run.stage] = found.get(run.stage, 0.0) + max(0.0, (run.finished_at - since).total_seconds())
                ended[run.stage] = max(run.finished_at, since)
        return {stage: found[stage] for stage in NAMES if stage in found}

    @property
    def between(self) -> float:
        """Seconds in which no stage was recorded at work: judging, exporting, waiting for a worker."""
        return max(0.0, (self.ended_at - self.started_at).total_seconds() - sum(self.seconds.values()))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Stages with a run that has no end."""
        return tuple(stage for stage in NAMES if any(r.stage == stage and not r.finished_at for r in self.runs))

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """Return what it published, or why not; None if no refresh came to an end that was noted."""
        ends = [run.counts["outcome"] for run in self.runs if run.is_end]
        return ends[-1] if ends else None

    @property
    def failed(self) -> str | None:
        """Return the stage in which it failed, unless somebody finished it afterwards."""
        stage = (self.outcome or {}).get("failed")
        return None if stage is None else str(stage)

    @property
    def quarantined(self) -> dict[str, int]:
        """Return what its ingest put into quarantine, by reason."""
        found: dict[str, int] = {}
        for run in self.runs:
            for reason, count in (run.counts.get("quarantined") or {}).items() if run.stage == "ingest" else ():
                found[reason] = found.get(reason, 0) + int(count)
        return found

    def total(self, stage: str, name: str) -> float:
        """Return the sum of one count over the workers of a stage."""
        return float(sum(run.counts.get(name) or 0 for run in self.runs if run.stage == stage))

    @property
    def labelled_per_hour(self) -> float | None:
        """Return the number of states labelled per hour of this night, by all workers; None if there were none."""
        labelled, seconds = self.total("label", "labelled"), self.seconds.get("label", 0.0)
        return labelled / seconds * 3_600 if labelled and seconds else None


def read_nights(connection: Connection) -> list[Night]:
    """Return all nights of a catalog, oldest first."""
    columns = (Execution.stage, Execution.started_at, Execution.finished_at, Execution.counts, Execution.subject)
    rows = connection.execute(select(*columns).order_by(Execution.started_at, Execution.id))
    return grouped(StageRun(stage, start, end, counts or {}, of) for stage, start, end, counts, of in rows)


def grouped(runs: Iterable[StageRun]) -> list[Night]:
    """Put runs, in the order of their starts, into nights."""
    nights: list[list[StageRun]] = []
    ended = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    for run in runs:
        if not nights or _begins(run, nights[-1]) or run.started_at - ended >= PAUSE:
            nights.append([])
        nights[-1].append(run)
        ended = max(ended, run.finished_at or run.started_at)
    return [Night(tuple(found)) for found in nights]


def _begins(run: StageRun, night: Sequence[StageRun]) -> bool:
    """Return whether a run that follows a night within an hour is of the next one: a night reads each place once."""
    if run.stage != NAMES[0] and not run.is_failed_ingest:
        return False
    read = {other.subject for other in night if run.is_after(other)} - {None}
    long_ago = all(other.finished_at and run.started_at - other.finished_at > JUDGING for other in night)
    return any(other.stage != NAMES[0] for other in night) or run.subject in read or (run.is_end and long_ago)
