"""A team's installation, for real: a Prefect server and workers as processes of their own, PostgreSQL, S3.

Set up by the commands of docs/guides/nightly.md. A schedule creates runs; a night that is started through the API goes
from recorded runs to a published policy. It spreads its labels over two workers; in the middle of them the database is
away for a while, and then a worker is lost. The labels are those of a single process, and the audit finds no fault.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from drsr.backbone.catalogue import load_backbone, load_tokenizer
from drsr.errors import CatalogUnreachable
from drsr.flows.sharding.shard_runs import CLAIM
from drsr.offline.audit.checks import labels as audited_labels
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim, Label, StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.publish.candidate import one_thread
from drsr.offline.publish.records import latest_releases
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import caps_for
from tests.flows.background import Background, Found, wait_for
from tests.flows.guide import commands
from tests.flows.made_up_runs import write_runs
from tests.flows.team import Team, ended_run
from tests.offline.audit.published import WITHOUT_MODEL, failures
from tests.offline.databases import fresh_database, not_accepting_connections

RUNS = {"train": 10, "validation": 6, "test": 2}
SHARDS = 2
SOURCE = "agents"


@pytest.fixture
def team(tmp_path: Path, bucket: str, tiny_model: str, migrated_prefect: Path) -> Iterator[Team]:
    with fresh_database("postgresql", tmp_path, migrated=True) as url:
        yield Team(tmp_path, url, bucket, tiny_model, migrated_prefect)


def fill(catalog: Catalog, artifacts: ArtifactStore, folder: Path, backbone: str) -> None:
    """Runs, ingested and frozen, with nothing measured."""
    ingest(catalog, artifacts, str(folder), source=SOURCE)
    tokenizer, window = load_tokenizer(backbone)
    freeze(catalog, artifacts, tokenizer, caps_for(window))


def labels_of(catalog: Catalog) -> dict[tuple[str, int], tuple[float, float, bool]]:
    query = select(DecisionState.state_key, Label.mask, Label.harm, Label.deleted_nll, Label.unsafe).join(
        Label, Label.state_id == DecisionState.id
    )
    with catalog.reading() as connection:
        return {(key, mask): (harm, nll, unsafe) for key, mask, harm, nll, unsafe in connection.execute(query)}


def labels_of_one_process(folder: Path, runs: Path, backbone: str) -> dict[tuple[str, int], tuple[float, float, bool]]:
    loaded = load_backbone(backbone)
    artifacts = ArtifactStore(str(folder / "artifacts"))
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog, one_thread():
        fill(catalog, artifacts, runs, backbone)
        scorer = TargetNll(loaded)
        label(catalog, artifacts, scorer, label_run(scorer, "float32", caps_for(loaded.window)))
        return labels_of(catalog)


def in_the_middle(
    catalog: Catalog, states: int, ended: Callable[[], object], act: Callable[[set[int]], Found], after: int = 0
) -> tuple[int, Found]:
    """Do something in the middle of labelling: when more than `after` states are measured, and not all.

    `act` is given the ids of the processes that are at it; returned are how many states were measured, and what it
    returns. While the catalog's write lock is held nobody records anything, and whoever waits for it gets it in turn:
    so the moment is in the middle, however fast or slow the machine is.
    """
    looked = time.monotonic()

    def look() -> tuple[int, Found] | None:
        nonlocal looked
        if time.monotonic() - looked > 5.0:
            looked = time.monotonic()
            assert not ended(), "before anything was measured"
        done: tuple[int, Found] | None = None
        holders: Sequence[str] = ()
        with suppress(CatalogUnreachable), catalog.writing() as connection:  # whatever was done to the connection
            measured = connection.execute(select(func.count()).select_from(StateMeasurement)).scalar_one()
            holders = connection.execute(select(Claim.worker).where(Claim.stage == CLAIM)).scalars().all()
            if measured > after and holders:
                assert measured < states
                done = measured, act({int(holder.rsplit("/", 2)[1]) for holder in holders})
        if not holders:
            time.sleep(0.1)  # nobody is at it yet, and workers that start need the processor
        return done

    return wait_for("labels", look, pause=0.0, seconds=400)


def lose_one(workers: list[Background], at_work: set[int]) -> Background:
    """Lose a worker, with all it started; returns it."""
    lost = next(worker for worker in workers if at_work & set(worker.tree()))
    assert at_work & set(lost.kill())
    return lost


@pytest.mark.timeout(900)  # about a minute and a half on an idle machine
def test_a_night_in_which_the_database_is_away_and_a_worker_is_lost(
    team: Team, tmp_path: Path, tiny_model: str
) -> None:
    server, *set_up, on_cpu, on_gpu = commands("In a team")
    assert server.words == ("prefect", "server", "start")
    assert [command.words[:3] for command in (on_cpu, on_gpu)] == [("prefect", "worker", "start")] * 2
    runs = write_runs(tmp_path / "runs", RUNS)
    with ExitStack() as stack:
        process = team.start(stack, server, "server")
        expected = labels_of_one_process(tmp_path / "alone", runs, tiny_model)
        states = len({state for state, _ in expected})
        wait_for("the server", team.is_up)
        for command in set_up:
            team.run(command)

        planned = wait_for("runs of the cron schedule", lambda: team.flow_runs("nightly"))
        assert {run["state_type"] for run in planned} == {"SCHEDULED"}
        assert all(run["auto_scheduled"] for run in planned)
        assert {start_of(run) for run in planned} == {(2, 15)}, "at 02:15 UTC"
        team.tell(f"/deployments/{planned[0]['deployment_id']}/pause_deployment", {})  # this may well be that moment

        run = start_night(team, runs, states)
        workers = [team.start(stack, on_gpu, f"gpu-{number}") for number in range(2)]
        on_cpus = team.start(stack, on_cpu, "cpu")
        catalog = stack.enter_context(open_catalog(team.environment["DRSR_CATALOG_URL"]))

        def has_ended() -> object:
            return ended_run(team, run)

        gone = database_away(catalog)
        with ExitStack() as away:
            measured, _ = in_the_middle(catalog, states, has_ended, lambda at_work: away.enter_context(gone))
            wait_for("a task that waits for the database", lambda: team.waiting_tasks() or has_ended())
        _, lost = in_the_middle(catalog, states, has_ended, lambda at_work: lose_one(workers, at_work), measured)
        assert lost.process.returncode == -9
        ended = wait_for("the end of the run", lambda: ended_run(team, run), seconds=600, pause=1.0)
        words = "\n".join(one.words for one in (process, *workers, on_cpus))
        assert ended["state_type"] == "COMPLETED", f"{ended['state']}\n{words}"

        assert labels_of(catalog) == expected
        shards = team.flow_runs("label-shard")
        outcomes = sorted(shard["state_type"] for shard in shards)
        assert outcomes.count("COMPLETED") == SHARDS
        assert set(outcomes) == {"COMPLETED", "CRASHED"}, "the lost one, and all that was done"
        again = {task["name"].partition("-")[0] for task in team.task_runs() if task["run_count"] > 1}
        assert again == {"label"}, "what the database was away for"
        assert claims_of(catalog) == []
        with catalog.reading() as connection:
            (released,) = latest_releases(connection, 2)
        assert [path.name for path in (tmp_path / "index").rglob("*.whl")] == [released.file_name]
        artifacts = ArtifactStore(team.environment["DRSR_ARTIFACT_ROOT"])
        audit = run_audit(Subject(catalog, artifacts, Order(sample=1)), [*WITHOUT_MODEL, audited_labels.CHECK])
        assert failures(audit) == {}
        ends_with_its_shards(team, catalog, states)
        for worker in workers:
            worker.stop()
        for command in commands("Catch up"):
            assert "Created flow run" in team.run(command)


def ends_with_its_shards(team: Team, catalog: Catalog, states: int) -> None:
    """A stage that somebody cancels while its shards are at work."""
    before = {shard["id"] for shard in team.flow_runs("label-shard")}
    run = team.create("label/label", {"labeler": "another", "fan_out": {"over": "work-pool", "poll_seconds": 0.5}})

    def shards(state: str) -> list[dict[str, Any]]:
        found = [shard for shard in team.flow_runs("label-shard") if shard["id"] not in before]
        return [shard for shard in found if shard["state_type"] == state]

    def cancel(at_work: set[int]) -> list[dict[str, Any]]:
        """The shard waits for the lock that is held here, so it does not end by itself before."""
        team.tell(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
        called_off = ("CANCELLING", "CANCELLED")
        return wait_for(
            "the shard to be called off", lambda: [found for state in called_off for found in shards(state)]
        )

    in_the_middle(catalog, 2 * states, lambda: ended_run(team, run), cancel, after=states)
    wait_for("the end of the shard", lambda: shards("CANCELLED"))
    assert shards("RUNNING") == []
    assert wait_for("the end of the stage", lambda: ended_run(team, run))["state_type"] == "CANCELLED"


@contextmanager
def database_away(catalog: Catalog) -> Iterator[bool]:
    """Within the block the database answers nobody."""
    with not_accepting_connections(catalog.engine.url):
        yield True
    catalog.engine.dispose()  # the connections that were cut


def claims_of(catalog: Catalog) -> list[str]:
    with catalog.reading() as connection:
        return list(connection.execute(select(Claim.item)).scalars())


def start_of(run: Mapping[str, Any]) -> tuple[int, int]:
    moment = datetime.datetime.fromisoformat(run["expected_start_time"]).astimezone(datetime.UTC)
    return moment.hour, moment.minute


def start_night(team: Team, runs: Path, states: int) -> str:
    """Start a run of the deployment through the API; returns its id."""
    parameters = {
        "locations": [{"uri": str(runs), "source": SOURCE}],
        "fan_out": {"over": "work-pool", "states_per_shard": -(-states // SHARDS), "poll_seconds": 0.5},
        "index": str(team.folder / "index"),
    }
    return team.create("nightly/nightly", parameters)
