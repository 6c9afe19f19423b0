"""A team's installation: a Prefect server with a database of its own, and what its processes see."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.flows.background import PATIENCE_SECONDS, ROOT, Background, background
from tests.flows.guide import Command, server_settings
from tests.flows.made_up_runs import write_params


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Team:
    """The installation: what its processes see, and the server's API."""

    def __init__(self, folder: Path, catalog_url: str, bucket: str, backbone: str, prefect: Path) -> None:
        self.folder = folder
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        shutil.copyfile(prefect, folder / "prefect.db")
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "DRSR_HOME": str(checkout(folder / "checkout")),
            "DRSR_CACHE": str(folder / "cache"),
            "DRSR_CATALOG_URL": catalog_url,
            "DRSR_ARTIFACT_ROOT": f"{bucket}/artifacts",
            "DRSR_BACKBONE": backbone,
            "PREFECT_API_URL": self.api,
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_SERVER_API_PORT": str(port),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/prefect.db",
            **server_settings(),
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",  # a busy machine lets SQLite wait
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }

    def start(self, stack: ExitStack, command: Command, name: str) -> Background:
        return stack.enter_context(background(command.words, self.environment, self.folder / f"{name}.log"))

    def run(self, command: Command) -> str:
        done = subprocess.run(command.words, env=self.environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{command.words}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer of the server's API: GET, or POST with a body."""
        return json.loads(self.tell(path, body))

    def tell(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """The same where the answer may be empty.

        While its SQLite database is locked the server answers 503, having done nothing; like Prefect's own clients, ask
        again then.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.api}{path}", data, {"content-type": "application/json"})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                    said: bytes = answer.read()
                    return said
            except urllib.error.HTTPError as refused:
                if refused.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.25)

    def create(self, deployment: str, parameters: Mapping[str, Any]) -> str:
        """A run of a deployment; returns its id."""
        known = self.ask(f"/deployments/name/{deployment}")
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        created: str = self.ask(f"/deployments/{known['id']}/create_flow_run", body)["id"]
        return created

    def is_up(self) -> bool:
        try:
            return bool(self.ask("/health"))
        except OSError:
            return False

    def task_runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("/task_runs/filter", {"limit": 200})
        return found

    def waiting_tasks(self) -> list[str]:
        """Tasks that failed and will be tried again."""
        return [task["name"] for task in self.task_runs() if task["state_name"] == "AwaitingRetry"]

    def flow_runs(self, deployment: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(
            "/flow_runs/filter", {"deployments": {"name": {"any_": [deployment]}}, "limit": 200}
        )
        return found


def checkout(folder: Path) -> Path:
    """What a worker finds at DRSR_HOME: the flows, and parameters with which a night takes seconds."""
    folder.mkdir()
    (folder / "flows").symlink_to(ROOT / "flows")
    write_params(folder)
    return folder


def ended_run(team: Team, run: str) -> dict[str, Any] | None:
    found: dict[str, Any] = team.ask(f"/flow_runs/{run}")
    return found if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None
