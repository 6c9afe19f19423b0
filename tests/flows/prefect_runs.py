"""What Prefect's server knows of the runs of a test: how they ended, and what was tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging.handlers import APILogWorker

from drsr.errors import DrsrError


class Ended(NamedTuple):
    """A flow run at its end."""

    state: str
    said: str
    attempts: dict[str, int]
    """How often each of its own tasks was tried, by the task's name."""


def last_run(flow: str) -> Ended:
    """The run of a flow that began last."""
    with get_client(sync_client=True) as client:
        named = FlowFilter(name=FlowFilterName(any_=[flow]))
        (run,) = client.read_flow_runs(flow_filter=named, sort=FlowRunSort.START_TIME_DESC, limit=1)
        mine = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
        tasks = client.read_task_runs(flow_run_filter=mine)
    assert run.state is not None
    return Ended(run.state.name or "", run.state.message or "", {task.name: task.run_count for task in tasks})


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
