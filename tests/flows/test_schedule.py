"""A schedule that fires three times, through a deployment and workers, and the two pages people look at afterwards.

In the first night the worker is killed alone: the night goes with it and is called crashed. The next night, on another
worker, does the rest, and Prefect's server is started again meanwhile. Before the third, one run is recorded, and a
file that nobody can read lies beside it.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import func, select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import DecisionState, Execution, Trajectory
from tests.flows.background import PATIENCE_SECONDS, ROOT, Background, descendants, send, wait_for
from tests.flows.guide import Command, commands
from tests.flows.made_up_runs import SPLITS, write_runs
from tests.flows.team import Team, ended_run
from tests.offline.chat_files import write_text
from tests.real_browser import FLAGS, NO_NETWORK, Browser

SECONDS = 90
"""Between two nights. One takes less, and a second one would wait for the first."""
POISONED = "broken.json"
LOOPBACK = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture
def team(tmp_path: Path, tiny_model: str, migrated_prefect: Path) -> Team:
    return Team(tmp_path, f"sqlite:///{tmp_path}/catalog.sqlite", str(tmp_path), tiny_model, migrated_prefect)


def deployed_every(seconds: int, runs: Path, folder: Path) -> Path:
    """prefect.yaml as a team edits it: its own place, another schedule, one machine."""
    document = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    document["deployments"] = [one for one in document["deployments"] if one["name"] == "nightly"]
    (nightly,) = document["deployments"]
    nightly["parameters"] |= {"locations": [{"uri": str(runs), "source": "agents"}], "fan_out": {"over": "processes"}}
    nightly["schedules"] = [{"interval": seconds, "active": True}]
    path = folder / "prefect.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.timeout(900)  # about three minutes on an idle machine
def test_nights_by_schedule(team: Team, tmp_path: Path, browser: Browser) -> None:
    server, *_, on_cpu, _ = commands("In a team")
    runs = write_runs(tmp_path / "runs")
    with ExitStack() as stack:
        first_server = started(team, stack, runs, SECONDS)
        lost = team.start(stack, on_cpu, "lost")
        night = night_after(team, "freeze", 1)
        below = killed_alone(lost)
        worker = team.start(stack, on_cpu, "cpu")
        nights = ends_of_nights(team, worker)
        crashed = next(nights)
        assert (crashed["id"], crashed["state_type"]) == (night["id"], "CRASHED")
        wait_for("the end of what the lost worker had started", lambda: not any(map(is_alive, below)))

        running = night_after(team, "ingest", 2)
        lease = running["state"]["state_details"]["deployment_concurrency_lease_id"]
        first_server.stop()
        team.start(stack, server, "server-again")
        wait_for("the server that was started again", team.is_up)
        # As the night itself does every few minutes: a server that forgot it answers 410, and the night is ended.
        team.tell(f"/v2/concurrency_limits/leases/{lease}/renew", {"lease_duration": 300})
        write_runs(runs, {"train": 1}, first=100)
        write_text(runs / POISONED, '{"messages": [{"role": "user", "content": "never closed')

        second, third = next(nights), next(nights)
        team.tell(f"/deployments/{third['deployment_id']}/pause_deployment", {})
        assert second["id"] == running["id"]
        for night in (second, third):
            assert night["state_type"] == "COMPLETED", f"{night['state']}\n{worker.words}"
            assert night["auto_scheduled"], "started by nobody"
            assert re.fullmatch(rf"nightly \d{{4}}-\d\d-\d\d {re.escape(str(runs))}", night["name"])
            assert night["work_pool_name"] == "cpu"
        before, after = said(team, second), said(team, third)
        assert "**freeze**: 0 trajectories frozen" in before, "the lost worker had frozen them"
        assert "**ingest**: 1 run added, 0 superseded, 1 quarantined" in after
        assert "**freeze**: 1 trajectory frozen" in after
        assert POISONED in after
        assert POISONED not in before
        with open_catalog(team.environment["DRSR_CATALOG_URL"]) as catalog:
            assert count(catalog, Trajectory) == sum(SPLITS.values()) + 1
            assert count(catalog, DecisionState) == count(catalog, StateMeasurement) > 0

        dashboard = Path(team.environment["DRSR_HOME"]) / "var" / "docs" / "dashboard.html"
        assert set(browser.grounds(dashboard.as_uri())) == {"light", "dark"}
        shown = shows(browser, dashboard.as_uri(), tmp_path / "dashboard.png", NO_NETWORK)
        assert shown.count("published 2026") >= 2
        assert "truncated_json" in shown
        page = f"{team.api.removesuffix('/api')}/runs/flow-run/{third['id']}"
        seen = shows(browser, page, tmp_path / "prefect.png", LOOPBACK, "--virtual-time-budget=30000")
        assert {third["name"], "auto-scheduled", "Completed"} <= set(re.split(r"\s*<[^>]*>\s*", seen))
        assert "1 run added, 0 superseded, 1 quarantined" in seen


def started(team: Team, stack: ExitStack, runs: Path, seconds: int) -> Background:
    """The server, with a pool and the deployment of a night every so many seconds."""
    command, pool, *_ = commands("In a team")
    server = team.start(stack, command, "server")
    wait_for("the server", team.is_up)
    team.run(pool)
    file = deployed_every(seconds, runs, team.folder)
    team.run(Command(("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)), ""))
    return server


def night_after(team: Team, stage: str, times: int) -> dict[str, Any]:
    """The flow run of the night that is running, as soon as a stage has ended so many times."""
    ends = select(func.count()).where(Execution.stage == stage, Execution.finished_at.is_not(None))

    def has_ended() -> bool:
        if not (team.folder / "catalog.sqlite").exists() or not (team.folder / "artifacts").exists():
            return False
        with open_catalog(team.environment["DRSR_CATALOG_URL"]) as catalog, catalog.reading() as connection:
            return connection.execute(ends).scalar_one() >= times

    wait_for(f"the end of {stage}", has_ended)
    (running,) = (night for night in team.flow_runs("nightly") if night["state_type"] == "RUNNING")
    return running


def killed_alone(worker: Background) -> list[int]:
    """Kill a worker in the middle of a night; return the ids of the processes it had started."""
    below = descendants(worker.process.pid)
    assert below, "the process of the night"
    send(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    return below


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def ends_of_nights(team: Team, worker: Background) -> Iterator[dict[str, Any]]:
    """Flow runs of the deployment as they end, the earliest first."""
    known: set[str] = set()

    def next_end() -> dict[str, Any] | None:
        assert worker.process.poll() is None, worker.words
        runs = sorted(team.flow_runs("nightly"), key=lambda run: str(run["expected_start_time"]))
        return next((run for run in runs if run["id"] not in known and ended_run(team, run["id"])), None)

    while True:
        found = wait_for("the end of a night", next_end, seconds=400, pause=1.0)
        known.add(found["id"])
        yield found


def said(team: Team, night: dict[str, Any]) -> str:
    """The summary that a night left in Prefect."""
    asked = {"artifacts": {"flow_run_id": {"any_": [night["id"]]}, "key": {"any_": ["refresh"]}}}
    (artifact,) = team.ask("/artifacts/filter", asked)
    return str(artifact["data"])


def count(catalog: Catalog, table: Any) -> int:
    with catalog.reading() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def shows(browser: Browser, url: str, picture: Path, *flags: str) -> str:
    """What a page shows; a picture of it is left for people. Prefect's page has complaints of its own."""
    profile = f"--user-data-dir={browser.folder / 'profile'}"
    command = [browser.program, *FLAGS, profile, "--window-size=1300,3000", "--hide-scrollbars", *flags]
    for flag in (f"--screenshot={picture}", "--dump-dom"):
        done = subprocess.run([*command, flag, url], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 10_000
    return done.stdout
