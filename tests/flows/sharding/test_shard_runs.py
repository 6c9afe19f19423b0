"""Shards are watched to their end; a double of Prefect's API plays what becomes of each flow run."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType
from sqlalchemy import Connection, delete, func, insert, select

from drsr.errors import CatalogUnreachable
from drsr.flows import faults
from drsr.flows.parameters import EVERYTHING, FanOut
from drsr.flows.sharding import fan_out, shard_runs
from drsr.flows.sharding.shard_runs import CLAIM, ShardFailed, run_shards, shown_alive
from drsr.flows.sharding.shards import STARTING_SECONDS
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.workers import this_worker
from drsr.offline.store.claims import LEASE_SECONDS, holder_lives

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
CHOICE = FanOut(over="work-pool", poll_seconds=0.001, attempts=2)


class DoubleOfPrefect:
    """Gives every flow run the states of a script, one at each look; the last one stays."""

    def __init__(self, scripts: dict[str, list[StateType]]) -> None:
        self.scripts = {name: list(states) for name, states in scripts.items()}
        self.names: dict[UUID, str] = {}
        self.keys: list[str] = []
        self.crashed: list[str] = []
        self.cancelled: list[str] = []
        self.began: datetime.datetime | None = None
        """When every flow run came into its state; by default just now."""

    def run_deployment(
        self, deployment: str, *, parameters: Any, timeout: float, flow_run_name: str, idempotency_key: str
    ) -> FlowRun:
        assert (deployment, timeout) == ("label-shard/label-shard", 0)
        self.keys.append(idempotency_key)
        run = FlowRun(id=uuid4(), flow_id=uuid4(), name=flow_run_name)
        self.names[run.id] = flow_run_name
        return run

    def read_flow_run(self, flow_run_id: UUID) -> FlowRun:
        left = self.scripts[self.names[flow_run_id]]
        began = self.began or datetime.datetime.now(datetime.UTC)
        kind = left.pop(0) if len(left) > 1 else left[0]
        state: State[Any] = State(type=kind, message="said by the shard", timestamp=began)
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


def test_a_shard_that_cannot_be_started_calls_the_others_off(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "DELAYS", (0.0, 0.0))
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


def test_prefect_s_server_that_is_started_again_gives_nobody_up(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away while a shard is started, while it is looked at, and while the lost one is called crashed."""
    monkeypatch.setattr(faults, "DELAYS", (0.0, 0.0))
    away = dict.fromkeys(("run_deployment", "read_flow_run", "set_flow_run_state"), 2)
    with playing({"a": [StateType.RUNNING], "a, attempt 2": [StateType.COMPLETED]}) as double:

        def sometimes_away(name: str) -> Callable[..., Any]:
            answer = getattr(double, name)

            def call(*given: Any, **options: Any) -> Any:
                if away[name]:
                    away[name] -= 1
                    raise httpx.ConnectError("refused")
                found = answer(*given, **options)
                if name == "run_deployment" and found.name == "a":
                    claim(catalog, found.id, "elsewhere/1/1", LONG_AGO)
                return found

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in away:
                patch.setattr(shard_runs if name == "run_deployment" else double, name, sometimes_away(name))
            assert run(catalog, "a") == 1
        assert set(away.values()) == {0}
        assert double.crashed == ["a"]
        assert len(double.keys) == len(set(double.keys)) == 2, "an attempt has one key, however often it is asked for"


def test_prefect_s_server_that_refuses_ends_the_stage(catalog: Catalog) -> None:
    with playing({"a": [StateType.RUNNING]}) as double, pytest.MonkeyPatch.context() as patch:
        refused = httpx.HTTPStatusError(
            "gone", request=httpx.Request("GET", "http://here"), response=httpx.Response(404)
        )

        def read_flow_run(flow_run_id: UUID) -> FlowRun:
            raise refused

        patch.setattr(double, "read_flow_run", read_flow_run)
        with pytest.raises(httpx.HTTPStatusError):
            run(catalog, "a")
        assert double.cancelled == ["a"]


def test_a_catalog_that_does_not_answer_gives_nobody_up(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*given: Any, by_age: bool) -> None:
        raise CatalogUnreachable("no answer", passing=True)

    monkeypatch.setattr(shard_runs, "holder_lives", unreachable)
    with playing({"a": [*WAITING, StateType.COMPLETED]}):
        assert run(catalog, "a") == 0


class Clock:
    """In place of `time` where shards are watched: a pause is over at once, and things happen at their moments."""

    def __init__(self) -> None:
        self.now = 0.0
        self.happens: dict[float, Callable[[], object]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in sorted(moment for moment in self.happens if moment <= self.now):
            self.happens.pop(moment)()


class Outage:
    """A shard `a` that runs and whose catalog is away from the first look on; `shows` says who claims it and when."""

    BACK, DONE = 603.0, 2000.0
    """When the catalog answers again, between two looks; and when the shard is done, if nobody gives it up."""

    def __init__(self, catalog: Catalog, shows: dict[float, tuple[str, datetime.datetime]]) -> None:
        clock = Clock()
        with playing({"a": [StateType.RUNNING], "a, attempt 2": [StateType.COMPLETED]}) as double:
            double.began = LONG_AGO
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(shard_runs, "time", clock)
                reading = catalog.reading
                clock.happens = {
                    1.0: lambda: patch.setattr(catalog, "reading", unanswered),
                    self.BACK: lambda: patch.setattr(catalog, "reading", reading),
                    self.DONE: lambda: double.scripts.update(a=[StateType.COMPLETED]),
                }
                for moment, (worker, heartbeat_at) in shows.items():
                    clock.happens[moment] = partial(show, catalog, double, worker, heartbeat_at)
                choice = FanOut(over="work-pool", poll_seconds=5.0, attempts=2)
                self.lost = run_shards(catalog, "label-shard/label-shard", shards_of("a"), choice)
        self.crashed, self.ended = double.crashed, clock.now

    @property
    def was_patient_for(self) -> float:
        """Seconds from the first answer to the end of the shard, which a second attempt reaches at its first look."""
        return self.ended - self.BACK


def unanswered() -> None:
    raise CatalogUnreachable("no answer", passing=True)


def show(catalog: Catalog, double: DoubleOfPrefect, worker: str, heartbeat_at: datetime.datetime) -> None:
    claim(catalog, next(iter(double.names)), worker, heartbeat_at)


def claim(catalog: Catalog, flow_run_id: UUID, worker: str, heartbeat_at: datetime.datetime) -> None:
    with catalog.writing() as connection:
        connection.execute(delete(Claim))
        values = {"item": str(flow_run_id), "worker": worker, "heartbeat_at": heartbeat_at}
        connection.execute(insert(Claim).values(stage=CLAIM, **values))


def test_an_outage_longer_than_the_lease_gives_no_living_one_up(catalog: Catalog) -> None:
    """Its claim is old at the first look, for its heartbeat comes after that."""
    now = datetime.datetime.now(datetime.UTC)
    outage = Outage(catalog, {2.0: ("elsewhere/1/1", LONG_AGO), Outage.BACK + 10: ("elsewhere/1/1", now)})
    assert (outage.lost, outage.crashed) == (0, [])


def test_an_outage_in_which_one_starts_gives_it_not_up(catalog: Catalog) -> None:
    """It has no claim yet, and waits for the catalog with pauses of up to six minutes."""
    now = datetime.datetime.now(datetime.UTC)
    outage = Outage(catalog, {Outage.BACK + max(faults.DELAYS) * (1 + faults.JITTER): ("elsewhere/1/1", now)})
    assert (outage.lost, outage.crashed) == (0, [])


def test_after_an_outage_a_dead_one_is_given_up_all_the_same(catalog: Catalog) -> None:
    outage = Outage(catalog, {2.0: ("elsewhere/1/1", LONG_AGO)})
    assert (outage.lost, outage.crashed) == (1, ["a"])
    assert LEASE_SECONDS <= outage.was_patient_for <= LEASE_SECONDS + 15
    never_shown = Outage(catalog, {})
    assert (never_shown.lost, never_shown.crashed) == (1, ["a"])
    assert STARTING_SECONDS <= never_shown.was_patient_for <= STARTING_SECONDS + 15


def test_after_an_outage_one_whose_process_is_gone_from_here_is_given_up_at_once(catalog: Catalog) -> None:
    here = this_worker().rsplit("/", 2)[0]
    outage = Outage(catalog, {2.0: (f"{here}/1/never", LONG_AGO)})
    assert (outage.lost, outage.crashed) == (1, ["a"])
    assert outage.was_patient_for <= 10


def test_an_outage_that_was_missed_while_prefect_did_not_answer(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server may use the same database. Then the claim is old, and nobody has seen why."""
    clock = Clock()
    monkeypatch.setattr(shard_runs, "time", clock)
    claims = shard_runs._ClaimsSeen(catalog, 5.0)
    run = uuid4()
    claim(catalog, run, "elsewhere/1/1", LONG_AGO)
    assert claims.holder_lives(run) is False
    clock.now += LEASE_SECONDS
    assert claims.holder_lives(run) is True
    clock.now += LEASE_SECONDS / 2
    assert claims.holder_lives(run) is True
    clock.now += LEASE_SECONDS / 2
    assert claims.holder_lives(run) is False


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
    assert claims(catalog) == 0, "it was away for a moment"
    with shown_alive(catalog, "some-run"):
        left = 2
    assert claims(catalog) == 1, "it is left behind, and nobody is given up for that"


def claims(catalog: Catalog) -> int:
    with catalog.reading() as connection:
        return connection.execute(select(func.count()).select_from(Claim)).scalar_one()


def test_on_one_machine_nothing_is_cut_into_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [7, 0]
    monkeypatch.setattr(fan_out.count_waiting, "with_options", lambda name: lambda *told: left.pop(0))
    monkeypatch.setattr(fan_out.work_here, "with_options", lambda name: lambda *told: {"labelled": 7})
    assert fan_out.spread("label", EVERYTHING, FanOut(), {"labeler": "default"}) == {"states": 7, "labelled": 7}


def test_a_dask_cluster_of_this_machine_or_a_running_one() -> None:
    here = fan_out._dask(FanOut(over="dask", processes=3))
    assert here.cluster_kwargs == {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}  # type: ignore[attr-defined]
    there = fan_out._dask(FanOut(over="dask", dask_scheduler="tcp://scheduler:8786"))
    assert there.address == "tcp://scheduler:8786"  # type: ignore[attr-defined]
