"""What Prefect's server knows of the runs of a test: how they ended, and what was tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging.handlers import APILogWorker

from drsr.errors import DrsrError
from tests.flows.background import wait_for


class Ended(NamedTuple):
    """A flow run at its end."""

    id: UUID
    state: str
    said: str


def last_run(flow: str) -> Ended:
    """The run of a flow that began last, and ended."""
    with get_client(sync_client=True) as client:
        named = FlowFilter(name=FlowFilterName(any_=[flow]))
        (run,) = client.read_flow_runs(flow_filter=named, sort=FlowRunSort.START_TIME_DESC, limit=1)
    assert run.state is not None
    return Ended(run.id, run.state.name or "", run.state.message or "")


def attempts_of(flow: str) -> dict[str, int]:
    """How often each task of its last run was tried, by the task's name.

    Prefect's server hears of tasks by events, some time after the flow has ended.
    """
    mine = FlowRunFilter(id=FlowRunFilterId(any_=[last_run(flow).id]))

    def ended() -> dict[str, int] | None:
        with get_client(sync_client=True) as client:
            tasks = client.read_task_runs(flow_run_filter=mine)
        if not all(task.state is not None and task.state.is_final() for task in tasks):
            return None
        return {task.name: task.run_count for task in tasks}

    return wait_for("the ends of its tasks", ended)


def refused(flow: str, call: Callable[[], object]) -> DrsrError:
    """The error that ends a run of the flow. Whoever looks at the run in Prefect is told the same."""
    with pytest.raises(DrsrError) as raised:
        call()
    APILogWorker.drain_all()
    run = last_run(flow)
    assert run.state == "Failed"
    assert str(raised.value) in run.said
    assert raised.value.hint, "nobody is told what to do"
    return raised.value
