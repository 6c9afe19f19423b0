"""Places of catalog and artifacts in a flow run: the settings of the machine that runs it, never its parameters.

A parameter is shown to everybody who may see the run; a database's password must not be one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from drsr.errors import CatalogUnreachable
from drsr.flows.faults import patiently
from drsr.offline.store.claims import LEASE_SECONDS, POLL_SECONDS, Claims, drop_claim, holders
from drsr.offline.store.place import Place, opened

__all__ = ["Place", "only_night", "opened", "patiently_opened"]

NIGHT = "night"
WAIT_SECONDS = LEASE_SECONDS + 10
"""Seconds that a night waits for another: by then one whose machine is gone has lost its claim."""


@contextmanager
def patiently_opened() -> Iterator[Place]:
    """Do the same outside of a task, which would be tried again: a catalog that does not answer at first is waited
    for."""
    with ExitStack() as stack:
        yield patiently(lambda: stack.enter_context(opened()))


@contextmanager
def only_night(flow_run: str) -> Iterator[None]:
    """Be the only night on the catalog within the block. Flow runs of nights that were killed are closed.

    Another night is waited for, as long as it may be dead; after that CatalogUnreachable says which it is.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    with patiently_opened() as place, Claims(place.catalog, NIGHT) as claims:
        while True:
            with place.catalog.writing() as connection:
                others = [one for one in holders(connection, NIGHT) if one.item != flow_run]
                killed = [one.item for one in others if not one.lives]
                living = [one for one in others if one.lives]
                for item in killed:
                    drop_claim(connection, NIGHT, item)
                if not living:
                    claims.take(connection, flow_run)
            for item in killed:
                _close(item)
            if not living:
                break
            if time.monotonic() > deadline:
                what = f"another night is at work on this catalog: {living[0].shown}, flow run {living[0].item}"
                hint = "try again when it has ended"
                raise CatalogUnreachable(what, where=place.catalog.location, hint=hint, passing=True)
            time.sleep(POLL_SECONDS)
        yield


def _close(flow_run: str) -> None:
    """Tell Prefect that a flow run and what it had started have crashed, where it still takes them for running."""
    dead: State[Any] = Crashed(message="its process ended; the next night on the same catalog found it")
    with get_client(sync_client=True) as client:
        try:
            own = client.read_flow_run(UUID(flow_run))
        except ObjectNotFound:  # of another server
            return
        parent = FlowRunFilterParentFlowRunId(any_=[own.id])
        below = client.read_flow_runs(flow_run_filter=FlowRunFilter(parent_flow_run_id=parent))
        for run in (own, *below):
            if run.state is not None and not run.state.is_final():
                client.set_flow_run_state(run.id, dead, force=True)
