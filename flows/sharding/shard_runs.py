"""Shards as separate flow runs: started through Prefect's API, watched, and started again if their worker is lost.

A lost worker is harmless: what it recorded is in the catalog, what it was at is measured again by whoever comes next.
A lost shard gets a new flow run. The old one is never scheduled again: its worker might still be at it.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.logging import get_run_logger
from prefect.states import Cancelling, Crashed

from drsr.errors import CatalogUnreachable, DrsrError
from drsr.flows.faults import is_passing, patiently
from drsr.flows.parameters import FanOut
from drsr.flows.sharding.shards import Move, Sight, next_move
from drsr.offline.catalog.engine import Catalog
from drsr.offline.store.claims import LEASE_SECONDS, Claims, drop_claim, holder_lives

CLAIM = "shard"
"""The stage name under which flow runs claim themselves."""
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
    move: Move = Move.WAIT
    why: str = ""
    taken: bool = field(default=False)


class _ClaimsSeen:
    """The claims of flow runs as this process sees them, and for how long it has seen them without a break.

    While the catalog is away nobody can renew a claim, and once it answers again this process may well look before the
    holder's next heartbeat. So for a whole lease after a break nobody is given up because his claim is old.
    """

    def __init__(self, catalog: Catalog, poll_seconds: float) -> None:
        self._catalog = catalog
        # A longer pause is a break too: Prefect's server may use the same database, and whoever waits for that server
        # does not see that the catalog is away.
        self._longest_pause = poll_seconds + LEASE_SECONDS / 2
        self._heard = time.monotonic()
        self._answers_since: float | None = -math.inf

    @property
    def answering(self) -> float:
        """Seconds for which the catalog has answered; 0 while it does not."""
        return 0.0 if self._answers_since is None else time.monotonic() - self._answers_since

    def holder_lives(self, flow_run_id: UUID) -> bool | None:
        """As in `claims`. True where it cannot be known at this moment: nobody is given up for that."""
        try:
            lives = self._ask(flow_run_id)
            late = lives is False and self.answering < LEASE_SECONDS
            return self._ask(flow_run_id, by_age=False) if late else lives
        except CatalogUnreachable as error:
            if not error.passing:
                raise
            return True

    def _ask(self, flow_run_id: UUID, *, by_age: bool = True) -> bool | None:
        with self._listening(), self._catalog.reading() as connection:
            return holder_lives(connection, CLAIM, str(flow_run_id), by_age=by_age)

    def drop(self, flow_run_id: UUID) -> None:
        """Forget the claim of a flow run that is given up."""
        with self._listening(), self._catalog.writing() as connection:
            drop_claim(connection, CLAIM, str(flow_run_id))

    @contextmanager
    def _listening(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._answers_since = None
            raise
        now = time.monotonic()
        if self._answers_since is None or now - self._heard > self._longest_pause:
            self._answers_since = now
        self._heard = now


def run_shards(
    catalog: Catalog, deployment: str, shards: Sequence[tuple[str, Mapping[str, Any]]], choice: FanOut
) -> int:
    """Run a deployment once per shard, each with its parameters, until all are done. Returns how many were lost.

    ShardFailed if one failed; the others were waited for, and what they did is recorded.
    """
    watched: list[_Watched] = []
    claims = _ClaimsSeen(catalog, choice.poll_seconds)
    with get_client(sync_client=True) as client:
        try:
            for name, parameters in shards:
                watched.append(_Watched(name, parameters, _start(deployment, name, parameters, 1)))
            lost = _watch(client, claims, deployment, watched, choice)
        except BaseException:  # the stage ran out of time, or somebody cancelled it
            _call_off(client, watched)
            raise
    failed = [shard for shard in watched if shard.move is Move.FAILED]
    if failed:
        raise ShardFailed(
            failed[0].why,
            where=f"{failed[0].name}, {len(failed)} of {len(watched)} shards",
            hint="what the others did is recorded; fix this and run again",
        )
    return lost


def _watch(
    client: SyncPrefectClient, claims: _ClaimsSeen, deployment: str, watched: Sequence[_Watched], choice: FanOut
) -> int:
    """Until nothing has to be waited for any more."""
    logger = get_run_logger()
    lost, began, warned = 0, time.monotonic(), False
    while any(shard.move is Move.WAIT for shard in watched):
        time.sleep(choice.poll_seconds)
        for shard in watched:
            if shard.move is not Move.WAIT:
                continue
            shard.move = _look(client, claims, shard)
            if shard.move is Move.RESTART:
                lost += 1
                logger.warning("%s: its worker is lost (attempt %d)", shard.name, shard.attempt)
                _give_up(client, claims, shard.run)
                _restart(deployment, shard, choice.attempts)
        if not warned and time.monotonic() - began > PATIENCE_SECONDS and not any(one.taken for one in watched):
            warned = True
            logger.warning("no worker has taken a run of %s yet: prefect worker start --pool ...", deployment)
    return lost


def _call_off(client: SyncPrefectClient, watched: Sequence[_Watched]) -> None:
    """Shards nobody waits for any more would hold the workers of the next night. What they recorded stays."""
    for shard in watched:
        if shard.move is Move.WAIT:
            try:
                client.set_flow_run_state(shard.run.id, Cancelling(message="its stage was ended"))
            except Exception as error:  # whatever ended the stage is what has to be told
                get_run_logger().warning("%s could not be cancelled: %s", shard.name, type(error).__name__)


def _look(client: SyncPrefectClient, claims: _ClaimsSeen, shard: _Watched) -> Move:
    try:
        shard.run = client.read_flow_run(shard.run.id)
    except Exception as error:
        if not is_passing(error):
            raise
        return Move.WAIT  # the server is being started again; the shard goes on, and so does its stage's limit
    state = shard.run.state
    if state is None:
        return Move.WAIT
    shard.taken = shard.taken or state.type.value != "SCHEDULED"
    seconds = (datetime.datetime.now(datetime.UTC) - state.timestamp).total_seconds()
    lives = claims.holder_lives(shard.run.id)
    move = next_move(Sight(state.type.value, seconds, lives, claims.answering))
    if move is Move.FAILED:
        shard.why = state.message or f"the flow run is {state.name}"
    return move


def _give_up(client: SyncPrefectClient, claims: _ClaimsSeen, run: FlowRun) -> None:
    patiently(lambda: claims.drop(run.id))
    if run.state is None or not run.state.is_final():
        # Lets go of its place in the pool, and says to everybody what became of it.
        patiently(lambda: client.set_flow_run_state(run.id, Crashed(message="its worker is lost"), force=True))


def _restart(deployment: str, shard: _Watched, attempts: int) -> None:
    if shard.attempt >= attempts:
        shard.move, shard.why = Move.FAILED, f"its worker was lost {shard.attempt} times"
        return
    shard.attempt += 1
    shard.run = _start(deployment, shard.name, shard.parameters, shard.attempt)
    shard.move = Move.WAIT


def _start(deployment: str, name: str, parameters: Mapping[str, Any], attempt: int) -> FlowRun:
    shown = name if attempt == 1 else f"{name}, attempt {attempt}"
    key = str(uuid4())  # a request that is sent again because its answer was lost starts nothing twice
    run = patiently(
        lambda: run_deployment(
            deployment, parameters=dict(parameters), timeout=0, flow_run_name=shown, idempotency_key=key
        )
    )
    assert isinstance(run, FlowRun)  # it is a coroutine only for those who are in an event loop
    return run
