"""A made-up history: runs of stages at chosen minutes."""

from __future__ import annotations

import datetime
from typing import Any

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.statements import insert_all
from drsr.offline.catalog.tables import Execution
from drsr.offline.dashboard.nights import StageRun

FIRST = datetime.datetime(2026, 11, 1, 2, 15, tzinfo=datetime.UTC)


def stage_run(stage: str, begin: float, end: float | None, **counts: Any) -> StageRun:
    """A run of a stage, in minutes since the first night began."""
    moments = [None if minute is None else FIRST + datetime.timedelta(minutes=minute) for minute in (begin, end)]
    assert moments[0] is not None
    return StageRun(stage, moments[0], moments[1], counts)


def a_night(begin: float, outcome: dict[str, Any]) -> list[StageRun]:
    """A night of all stages that takes 62 minutes, two of them between stages."""
    return [
        stage_run("ingest", begin, begin + 1, files=9, quarantined={"broken_json": 2, "empty": 1}),
        stage_run("freeze", begin + 1, begin + 2),
        stage_run("label", begin + 2, begin + 32, labelled=60, sets=900, seconds=1_800.0, tokens_processed=10**6),
        stage_run("label", begin + 2, begin + 30, labelled=40, sets=600, seconds=1_680.0, tokens_processed=10**6),
        stage_run("featurize", begin + 32, begin + 33),
        stage_run("train", begin + 34, begin + 58),
        stage_run("calibrate", begin + 58, begin + 59),
        stage_run("publish", begin + 60, begin + 61, version="2026.11.1"),
        stage_run("publish", begin + 62, begin + 62, stamp="0", outcome=outcome),
    ]


def failed(at: float, stage: str, reason: str) -> StageRun:
    """What a night leaves that failed."""
    return stage_run("publish", at, at, stamp="", outcome={"published": False, "failed": stage, "reason": reason})


def record(catalog: Catalog, runs: list[StageRun]) -> None:
    facts = {"code_version": "0"}
    rows = [
        {
            **facts,
            "stage": r.stage,
            "subject": r.subject,
            "started_at": r.started_at,
            "finished_at": r.finished_at,
            "counts": dict(r.counts),
        }
        for r in runs
    ]
    with catalog.writing() as connection:
        insert_all(connection, Execution, rows)
