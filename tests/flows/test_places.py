"""One night at a time on a catalog, and what Prefect is told of those that were killed."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Running
from sqlalchemy import select, update

from drsr.errors import CatalogUnreachable
from drsr.flows import places
from drsr.flows.places import NIGHT, only_night
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.workers import this_worker
from drsr.offline.store.claims import Claims
from tests.offline.small_pipeline import Pipeline

GONE = this_worker().rpartition("/")[0] + "/1"
"""A process of this host that has ended."""


@pytest.fixture(autouse=True)
def place(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    for name, value in pipeline.settings.items():
        monkeypatch.setenv(name, value)
    return pipeline


def claimed(pipeline: Pipeline, item: str, worker: str) -> Any:
    with Claims(pipeline.catalog, NIGHT) as claims, pipeline.catalog.writing() as connection:
        claims.take(connection, item)
        connection.execute(update(Claim).where(Claim.item == item).values(worker=worker))


def test_the_flow_run_of_a_killed_night_is_closed_by_the_next(place: Pipeline, prefect_server: None) -> None:
    @flow(name="a-night")
    def night() -> None:
        """A double of a night."""

    with get_client(sync_client=True) as client:
        killed = client.create_flow_run(night, state=Running())
    claimed(place, str(killed.id), GONE)
    claimed(place, str(uuid4()), GONE)  # a flow run of another server
    with only_night("this one"), place.catalog.reading() as connection:
        assert connection.execute(select(Claim.item)).scalars().all() == ["this one"]
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(killed.id).state
    assert state is not None
    assert (state.name, state.message) == (
        "Crashed",
        "its process ended; the next night on the same catalog found it",
    )


def test_a_night_beside_another_says_who_runs(place: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.1)
    claimed(place, "the other", "elsewhere/pid:[1]/7/1")
    with (
        pytest.raises(CatalogUnreachable, match="process 7 on elsewhere, flow run the other") as raised,
        only_night("b"),
    ):
        pass
    assert raised.value.passing
    with place.catalog.reading() as connection:
        assert connection.execute(select(Claim.item)).scalars().all() == ["the other"]
