"""Note when a stage starts and ends, and what it did."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import Connection, insert, update

from drsr.offline.catalog.tables import Run


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def start_run(connection: Connection, stage: str, subject: str | None, code_version: str) -> int:
    """Note that a stage has started; returns the run's id."""
    row = {"stage": stage, "subject": subject, "code_version": code_version, "started_at": _now()}
    return connection.execute(insert(Run).values(row).returning(Run.id)).scalar_one()


def finish_run(connection: Connection, run_id: int, counts: dict[str, Any]) -> None:
    """Note that a run has come to its end, and what it did."""
    connection.execute(update(Run).where(Run.id == run_id).values(finished_at=_now(), counts=counts))
