"""Shards as flow runs of their own: started through Prefect's API, watched, and started again if their worker is lost.

A lost worker is harmless: what it recorded is in the catalog, what it was at is measured again by whoever comes next.
A lost shard gets a new flow run. The old one is never scheduled again: its worker might still be at it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.logging import get_run_logger
from prefect.states import Cancelling, Crashed

from drsr.errors import CatalogUnreachable, DrsrError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.claims import Claims, drop_claim, holder_lives
from flows.faults import patiently
from flows.parameters import FanOut
from flows.shards import Sight, Step, next_step

CLAIM = "shard"
"""What the claims of flow runs on themselves are filed under."""
PATIENCE_SECONDS = 120.0
"""After so long without a worker for any shard, the log says so."""


class ShardFailed(DrsrError):
    """A shard's flow run failed, or its workers were lost too often."""


@contextmanager
def shown_alive(catalog: Catalog, flow_run_id: UUID | str) -> Iterator[None]:
    """Within the block this process says in the catalog, every few seconds, that it works on the flow run.

    A catalog that is away for a moment does not end a flow run whose tasks would wait for it.
    """
    claims = Claims(catalog, CLAIM)

    def take() -> None:
        with catalog.writing() as connection:
            claims.take(connection, str(flow_run_id))

    with claims:
        patiently(take)
        yield


@dataclass
class _Watched:
    """A shard, and the flow run that is at it now."""

    name: str
    parameters: Mapping[str, Any]
    run: FlowRun
    attempt: int = 1
    step: Step = Step.WAIT
    why: str = ""
    taken: bool = field(default=False)


def run_shards(
    catalog: Catalog, deployment: str, shards: Sequence[tuple[str, Mapping[str, Any]]], choice: FanOut
) -> int:
    """Run a deployment once per shard, each with its parameters, until all are done. Returns how many were lost.

    ShardFailed if one failed; the others were waited for, and what they did is recorded.
    """
    watched: list[_Watched] = []
    with get_client(sync_client=True) as client:
        try:
            for name, parameters in shards:
                watched.append(_Watched(name, parameters, _start(deployment, name, parameters, 1)))
            lost = _watch(client, catalog, deployment, watched, choice)
        except BaseException:  # the stage ran out of time, or somebody cancelled it
            _call_off(client, watched)
            raise
    failed = [shard for shard in watched if shard.step is Step.FAILED]
    if failed:
        raise ShardFailed(
            failed[0].why,
            where=f"{failed[0].name}, {len(failed)} of {len(watched)} shards",
            hint="what the others did is recorded; mend it and run again",
        )
    return lost


def _watch(
    client: SyncPrefectClient, catalog: Catalog, deployment: str, watched: Sequence[_Watched], choice: FanOut
) -> int:
    """Until nothing has to be waited for any more."""
    logger = get_run_logger()
    lost, began, warned = 0, time.monotonic(), False
    while any(shard.step is Step.WAIT for shard in watched):
        time.sleep(choice.poll_seconds)
        for shard in watched:
            if shard.step is not Step.WAIT:
                continue
            shard.step = _look(client, catalog, shard)
            if shard.step is Step.RESTART:
                lost += 1
                logger.warning("%s: its worker is lost (attempt %d)", shard.name, shard.attempt)
                _give_up(client, catalog, shard.run)
                _restart(deployment, shard, choice.attempts)
        if not warned and time.monotonic() - began > PATIENCE_SECONDS and not any(one.taken for one in watched):
            warned = True
            logger.warning("no worker has taken a run of %s yet: prefect worker start --pool ...", deployment)
    return lost


def _call_off(client: SyncPrefectClient, watched: Sequence[_Watched]) -> None:
    """Shards nobody waits for any more would hold the workers of the next night. What they recorded stays."""
    for shard in watched:
        if shard.step is Step.WAIT:
            try:
                client.set_flow_run_state(shard.run.id, Cancelling(message="its stage was ended"))
            except Exception as error:  # whatever ended the stage is what has to be told
                get_run_logger().warning("%s could not be cancelled: %s", shard.name, type(error).__name__)


def _look(client: SyncPrefectClient, catalog: Catalog, shard: _Watched) -> Step:
    shard.run = client.read_flow_run(shard.run.id)
    state = shard.run.state
    if state is None:
        return Step.WAIT
    shard.taken = shard.taken or state.type.value != "SCHEDULED"
    seconds = (datetime.datetime.now(datetime.UTC) - state.timestamp).total_seconds()
    step = next_step(Sight(state.type.value, seconds, _holder_lives(catalog, shard.run.id)))
    if step is Step.FAILED:
        shard.why = state.message or f"the flow run is {state.name}"
    return step


def _holder_lives(catalog: Catalog, flow_run_id: UUID) -> bool | None:
    try:
        with catalog.reading() as connection:
            return holder_lives(connection, CLAIM, str(flow_run_id))
    except CatalogUnreachable as error:
        if not error.passing:
            raise
        return True  # not known at this moment: nobody is given up for that


def _give_up(client: SyncPrefectClient, catalog: Catalog, run: FlowRun) -> None:
    def forget() -> None:
        with catalog.writing() as connection:
            drop_claim(connection, CLAIM, str(run.id))

    patiently(forget)
    if run.state is None or not run.state.is_final():
        # Lets go of its place in the pool, and says to everybody what became of it.
        client.set_flow_run_state(run.id, Crashed(message="its worker is lost"), force=True)


def _restart(deployment: str, shard: _Watched, attempts: int) -> None:
    if shard.attempt >= attempts:
        shard.step, shard.why = Step.FAILED, f"its worker was lost {shard.attempt} times"
        return
    shard.attempt += 1
    shard.run = _start(deployment, shard.name, shard.parameters, shard.attempt)
    shard.step = Step.WAIT


def _start(deployment: str, name: str, parameters: Mapping[str, Any], attempt: int) -> FlowRun:
    shown = name if attempt == 1 else f"{name}, attempt {attempt}"
    run = run_deployment(deployment, parameters=dict(parameters), timeout=0, flow_run_name=shown)
    assert isinstance(run, FlowRun)  # it is a coroutine only for those who are in an event loop
    return run
