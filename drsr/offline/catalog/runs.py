"""Note when a stage starts and ends, and what it did. A run that was killed is marked so by the next that starts."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from drsr.offline.catalog.tables import Execution
from drsr.offline.catalog.workers import is_gone, this_worker

WORKER, KILLED = "worker", "killed"
"""Counts of a run that has not ended: who is at it, or that its process ended before it did."""


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def start_run(connection: Connection, stage: str, subject: str | None, code_version: str) -> int:
    """Note that a stage has started; returns the run's id."""
    _mark_killed(connection)
    row = {
        "stage": stage,
        "subject": subject,
        "code_version": code_version,
        "started_at": _now(),
        "counts": {WORKER: this_worker()},
    }
    return connection.execute(insert(Execution).values(row).returning(Execution.id)).scalar_one()


def finish_run(connection: Connection, run_id: int, counts: dict[str, Any]) -> None:
    """Note that a run has come to its end, and what it did."""
    connection.execute(update(Execution).where(Execution.id == run_id).values(finished_at=_now(), counts=counts))


def _mark_killed(connection: Connection) -> None:
    """Mark the runs whose process on this host has ended. Of another host's processes nothing is known."""
    for run_id, counts in connection.execute(
        select(Execution.id, Execution.counts).where(Execution.finished_at.is_(None))
    ).tuples():
        if counts and WORKER in counts and is_gone(counts[WORKER]):
            connection.execute(update(Execution).where(Execution.id == run_id).values(counts={KILLED: True}))
