"""Settings that all stage flows share: how long a stage may take, and the tags that limits are set on."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prefect.flow_engine import FlowRunTimeoutError
from prefect.runtime import flow_run

from drsr.errors import DrsrError
from drsr.flows.faults import RETRIES
from drsr.offline.notices import emitting
from drsr.offline.stages import HOUR, STAGES

TIMEOUTS = {stage.name: stage.seconds for stage in STAGES}
"""Seconds after which a stage is given up. What it recorded stays; the next run goes on from there."""
BETWEEN_STAGES: dict[str, Any] = RETRIES | {"timeout_seconds": 2 * HOUR}
"""For every task between two stages: judging, recording. A flow of several stages has no limit: Prefect interrupts what
hangs only where a single limit is at work, and would leave a stage inside of it waiting for ever."""
GPU = "gpu"
"""Tag of every task that loads the language model: `prefect concurrency-limit create gpu 1` allows one at a time."""
_SECONDS = re.compile(r"([\d.]+) second")
Value = TypeVar("Value")


def run_name() -> str:
    """Name a flow run by its flow and its day: `label 2026-11-17`."""
    when = flow_run.scheduled_start_time or datetime.datetime.now(datetime.UTC)
    return f"{flow_run.flow_name} {when:%Y-%m-%d}"


class StageTimedOut(DrsrError):
    """A stage was given up."""


class StageInterrupted(DrsrError):
    """A stage was ended by Prefect long before its limit, which calls that a timeout as well."""


def in_time(stage: str, run: Callable[[], Value], locations: Sequence[str] = ()) -> Value:
    """Run a stage's flow. StageTimedOut where it was given up: Prefect alone would blame the flow that called it.

    It emits OpenLineage events where these are wanted; `locations` are what it reads besides the catalog.
    """
    with emitting(stage, locations):
        began = time.monotonic()
        try:
            return run()
        except FlowRunTimeoutError as error:
            seconds, limit = time.monotonic() - began, _SECONDS.search(str(error))
            if limit is not None and seconds < float(limit[1]):
                raise StageInterrupted(
                    f"Prefect ended it after {seconds:.0f} s, before its limit",
                    where=stage,
                    hint="what it recorded stays, and the next run goes on from there; the flow run's log says why: "
                    "somebody cancelled it, or Prefect's server was started again and does not keep concurrency leases "
                    "on disk (PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE, docs/guides/nightly.md)",
                ) from None
            raise StageTimedOut(
                f"did not end in time, and was given up: {error}",
                where=stage,
                hint="what it recorded stays, and the next run goes on from there; see in its log what it waited for: "
                "the catalog, the storage, a worker of its pool. drsr/offline/stages.py has the limits",
            ) from None
