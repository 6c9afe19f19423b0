"""Storage that is away for a moment is waited for; a stage that hangs is given up. In this process, on a real server.

The database's turn is in test_team.py.
"""

from __future__ import annotations

import datetime
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from drsr.flows import backfill as backfill_flow
from drsr.flows.backfill import backfill
from drsr.flows.parameters import Days, Location
from drsr.flows.sharding import fan_out
from drsr.flows.stage_tasks import StageTimedOut
from drsr.flows.stages.ingest import ingest
from drsr.flows.stages.label import label
from drsr.offline.label.worker import WorkOrder
from drsr.offline.store.worker_processes import Report
from tests.flows.prefect_runs import attempts_of, last_run, refused
from tests.flows.sites import RUNS
from tests.offline.conftest import StorageServer

SECONDS = 12.0
"""A limit that a busy machine reaches only by what hangs: its way there asks a server, which may be busy too."""
pytestmark = pytest.mark.usefixtures("prefect_server")


@contextmanager
def when_a_task_waits(act: Callable[[], None]) -> Iterator[None]:
    """Do something once, as soon as a task has failed and Prefect says that it will try again."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "will start" in record.getMessage():
                logger.removeHandler(self)
                act()

    logger = logging.getLogger("prefect.task_runs")
    listener = Listener()
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


@pytest.mark.parametrize("what", ["artifacts", "runs"])
def test_storage_that_is_away_for_a_moment(
    site: Path, bucket: str, storage_server: StorageServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """That of the artifacts, and that which runs are read from."""
    locations = RUNS
    if what == "artifacts":
        monkeypatch.setenv("DRSR_ARTIFACT_ROOT", f"{bucket}/artifacts")
    else:
        fsspec.filesystem("s3").put(f"{site / 'runs'}/", f"{bucket}/runs/", recursive=True)
        locations = [Location(uri=f"{bucket}/runs", source="runs")]
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # the client's own, which would take longer
    storage_server.stop()
    with when_a_task_waits(storage_server.start_again):
        assert ingest(locations)["added"] == 8
    assert last_run("ingest").state == "Completed"
    assert attempts_of("ingest") == {f"ingest {locations[0].uri}": 2}


@pytest.mark.timeout(300, method="thread")  # by a signal is how Prefect ends what hangs
def test_a_stage_that_hangs(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended although it waits in the kernel, its run says so, and the next run goes on from there."""
    ingest(RUNS)
    today = datetime.datetime.now(datetime.UTC).date()
    days = Days(since=today - datetime.timedelta(days=1), until=today + datetime.timedelta(days=1))

    hung = []

    def hanging_double(order: WorkOrder, report: Report) -> dict[str, Any]:
        hung.append(order.name)
        nobody_reads, nobody_writes = os.pipe()
        try:
            os.read(nobody_reads, 1)
            return {}
        finally:
            os.close(nobody_reads)
            os.close(nobody_writes)

    with monkeypatch.context() as patch:
        patch.setattr(fan_out, "work", hanging_double)
        patch.setattr(backfill_flow, "label", label.with_options(timeout_seconds=SECONDS))
        error = refused("backfill", lambda: backfill(days, source="runs"))
    assert isinstance(error, StageTimedOut)
    assert (error.where, f"after {SECONDS} second" in error.what) == ("label", True)
    assert hung == ["default"], "it was at it, and was not tried again"
    assert "the next run goes on from there" in str(error.hint)
    run = last_run("label")
    assert (run.state, run.said) == ("TimedOut", f"Flow run exceeded timeout of {SECONDS} second(s)")
    done = backfill(days, source="runs")
    assert (done["freeze"]["frozen"], done["label"]["states"]) == (0, 16)
