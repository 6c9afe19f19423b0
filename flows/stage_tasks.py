"""Settings that all stage flows share: how long a stage may take, and the tags that limits are set on."""

from __future__ import annotations

import datetime
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
"""For every task between two stages: judging, recording. A flow of several stages has no limit of its own: Prefect
interrupts what hangs only where a single limit is at work, and would leave a stage inside of it waiting for ever."""
GPU = "gpu"
"""Tag of every task that loads the language model: `prefect concurrency-limit create gpu 1` allows one at a time."""
Value = TypeVar("Value")


def run_name() -> str:
    """Name a flow run by its flow and its day: `label 2026-11-17`."""
    when = flow_run.scheduled_start_time or datetime.datetime.now(datetime.UTC)
    return f"{flow_run.flow_name} {when:%Y-%m-%d}"


class StageTimedOut(DrsrError):
    """A stage was given up."""


def in_time(stage: str, run: Callable[[], Value], locations: Sequence[str] = ()) -> Value:
    """Run a stage's flow. StageTimedOut where it was given up: Prefect alone would blame the flow that called it.

    It emits OpenLineage events where these are wanted; `locations` are what it reads besides the catalog.
    """
    with emitting(stage, locations):
        try:
            return run()
        except FlowRunTimeoutError as error:
            raise StageTimedOut(
                f"did not end in time, and was given up: {error}",
                where=stage,
                hint="what it recorded stays, and the next run goes on from there; see in its log what it waited for: "
                "the catalog, the storage, a worker of its pool. drsr/offline/stages.py has the limits",
            ) from None
