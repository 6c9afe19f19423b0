"""Shards are watched to their end; a double of Prefect's API plays what becomes of each flow run."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from sqlalchemy import Connection, func, insert, select

from drsr.errors import CatalogUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.claims import holder_lives
from flows import fan_out, faults, shard_runs
from flows.parameters import EVERYTHING, FanOut
from flows.shard_runs import CLAIM, ShardFailed, run_shards, shown_alive

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
CHOICE = FanOut(over="work-pool", poll_seconds=0.001, attempts=2)


class DoubleOfPrefect:
    """Gives every flow run the states of a script, one at each look; the last one stays."""

    def __init__(self, scripts: dict[str, list[StateType]]) -> None:
        self.scripts = {name: list(states) for name, states in scripts.items()}
        self.names: dict[UUID, str] = {}
        self.crashed: list[str] = []
        self.cancelled: list[str] = []

    def run_deployment(self, deployment: str, *, parameters: Any, timeout: float, flow_run_name: str) -> FlowRun:
        assert (deployment, timeout) == ("label-shard/label-shard", 0)
        run = FlowRun(id=uuid4(), flow_id=uuid4(), name=flow_run_name)
        self.names[run.id] = flow_run_name
        return run

    def read_flow_run(self, flow_run_id: UUID) -> FlowRun:
        left = self.scripts[self.names[flow_run_id]]
        state: State[Any] = State(type=left.pop(0) if len(left) > 1 else left[0], message="said by the shard")
        return FlowRun(id=flow_run_id, flow_id=uuid4(), name=self.names[flow_run_id], state=state)

    def set_flow_run_state(self, flow_run_id: UUID, state: State[Any], *, force: bool = False) -> None:
        assert (state.type, force) in ((StateType.CRASHED, True), (StateType.CANCELLING, False))
        told = self.crashed if force else self.cancelled
        told.append(self.names[flow_run_id])


@contextmanager
def playing(scripts: dict[str, list[StateType]]) -> Iterator[DoubleOfPrefect]:
    double = DoubleOfPrefect(scripts)

    @contextmanager
    def get_client(sync_client: bool) -> Iterator[DoubleOfPrefect]:
        yield double

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_runs, "run_deployment", double.run_deployment)
        patch.setattr(shard_runs, "get_client", get_client)
        patch.setattr(shard_runs, "get_run_logger", lambda: logging.getLogger("tests"))
        yield double


@pytest.fixture
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with open_catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog')}/c.sqlite", create=True) as opened:
        yield opened


def shards_of(*names: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, {"shard": number}) for number, name in enumerate(names)]


def run(catalog: Catalog, *names: str) -> int:
    return run_shards(catalog, "label-shard/label-shard", shards_of(*names), CHOICE)


WAITING = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING]


def test_all_are_waited_for(catalog: Catalog) -> None:
    with playing({"a": [*WAITING, StateType.COMPLETED], "b": [StateType.COMPLETED]}):
        assert run(catalog, "a", "b") == 0


def test_a_lost_one_gets_a_new_flow_run(catalog: Catalog) -> None:
    scripts = {"a": [*WAITING, StateType.CRASHED], "a, attempt 2": [*WAITING, StateType.COMPLETED]}
    with playing(scripts) as double:
        assert run(catalog, "a") == 1
        assert double.crashed == [], "it is crashed already"


def test_one_whose_machine_is_lost_is_marked_and_its_claim_forgotten(catalog: Catalog) -> None:
    with playing({"a": [StateType.RUNNING], "a, attempt 2": [StateType.COMPLETED]}) as double:
        start = double.run_deployment

        def start_and_die(*given: Any, **options: Any) -> FlowRun:
            started = start(*given, **options)
            if started.name == "a":
                with catalog.writing() as connection:
                    claim = {"item": str(started.id), "worker": "elsewhere/1/1", "heartbeat_at": LONG_AGO}
                    connection.execute(insert(Claim).values(stage=CLAIM, **claim))
            return started

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard_runs, "run_deployment", start_and_die)
            assert run(catalog, "a") == 1
        assert double.crashed == ["a"]
    assert claims(catalog) == 0


def test_one_that_is_lost_too_often_fails(catalog: Catalog) -> None:
    scripts = {"a": [StateType.CRASHED], "a, attempt 2": [StateType.CRASHED], "b": [*WAITING, StateType.COMPLETED]}
    with playing(scripts), pytest.raises(ShardFailed, match="a, 1 of 2 shards: its worker was lost 2 times"):
        run(catalog, "a", "b")


def test_one_that_fails_is_told_after_the_others_have_ended(catalog: Catalog) -> None:
    with playing({"a": [StateType.FAILED], "b": [*WAITING, StateType.COMPLETED]}) as double:
        with pytest.raises(ShardFailed, match="said by the shard"):
            run(catalog, "a", "b")
        assert double.scripts["b"] == [StateType.COMPLETED]


def test_a_stage_that_is_ended_calls_its_shards_off(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    class TimeIsUp(BaseException):
        """As Prefect's is none that a stage could hold back."""

    def ended(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise TimeIsUp

    looks: list[float] = []
    monkeypatch.setattr(time, "sleep", ended)
    with playing({"a": [StateType.RUNNING], "b": [StateType.COMPLETED], "c": [StateType.SCHEDULED]}) as double:
        with pytest.raises(TimeIsUp):
            run(catalog, "a", "b", "c")
        assert double.cancelled == ["a", "c"], "the other one was done"


def test_a_shard_that_cannot_be_started_calls_the_others_off(catalog: Catalog) -> None:
    with playing({"a": [StateType.RUNNING], "b": []}) as double:
        start = double.run_deployment

        def start_one(*given: Any, **options: Any) -> FlowRun:
            if options["flow_run_name"] == "b":
                raise ConnectionError("no server")
            return start(*given, **options)

        def unheard(flow_run_id: UUID, state: State[Any]) -> None:
            asked.append(double.names[flow_run_id])
            raise TimeoutError

        asked: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard_runs, "run_deployment", start_one)
            patch.setattr(double, "set_flow_run_state", unheard)
            with pytest.raises(ConnectionError, match="no server"):
                run(catalog, "a", "b")
        assert asked == ["a"]


def test_a_catalog_that_does_not_answer_gives_nobody_up(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*given: Any) -> None:
        raise CatalogUnreachable("no answer", passing=True)

    monkeypatch.setattr(shard_runs, "holder_lives", unreachable)
    with playing({"a": [*WAITING, StateType.COMPLETED]}):
        assert run(catalog, "a") == 0


def test_a_flow_run_shows_itself_while_it_works(catalog: Catalog) -> None:
    with shown_alive(catalog, "some-run"), catalog.reading() as connection:
        assert holder_lives(connection, CLAIM, "some-run") is True
    assert claims(catalog) == 0


def test_a_catalog_that_is_away_when_a_flow_run_begins_or_ends(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "DELAYS", (0.0, 0.0))
    left = 2

    @contextmanager
    def away() -> Iterator[Connection]:
        nonlocal left
        if left:
            left -= 1
            raise CatalogUnreachable("no answer", passing=True)
        with writing() as connection:
            yield connection

    writing = catalog.writing
    monkeypatch.setattr(catalog, "writing", away)
    with shown_alive(catalog, "some-run"):
        assert (left, claims(catalog)) == (0, 1)
        left = 1
    assert claims(catalog) == 1, "it is left behind, and nobody is given up for that"


def claims(catalog: Catalog) -> int:
    with catalog.reading() as connection:
        return connection.execute(select(func.count()).select_from(Claim)).scalar_one()


def test_on_one_machine_nothing_is_cut_into_shards() -> None:
    done = fan_out.spread("label", 7, EVERYTHING, FanOut(), {}, here=lambda: {"states": 7}, of_shard=None)  # type: ignore[arg-type]
    assert done == {"states": 7}


def test_a_dask_cluster_of_this_machine_or_a_running_one() -> None:
    here = fan_out._dask(FanOut(over="dask", processes=3))
    assert here.cluster_kwargs == {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}  # type: ignore[attr-defined]
    there = fan_out._dask(FanOut(over="dask", dask_scheduler="tcp://scheduler:8786"))
    assert there.address == "tcp://scheduler:8786"  # type: ignore[attr-defined]
