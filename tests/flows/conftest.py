"""A Prefect database that was migrated once: making one takes longer than most tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.flows.embedded_server import with_embedded_server
from tests.flows.sites import site
from tests.offline.conftest import bucket, finished_pipeline, pipeline, storage_server
from tests.tiny_models import build_tiny

__all__ = [
    "bucket",
    "finished_pipeline",
    "migrated_prefect",
    "pipeline",
    "prefect_server",
    "site",
    "storage_server",
    "tiny_model",
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def migrated_prefect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy, made once for all processes of a test run."""
    shared = tmp_path_factory.getbasetemp()
    folder = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    path = folder / "migrated-prefect.db"
    with (folder / "migrated-prefect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _migrate(folder / "unfinished-prefect.db")
            (folder / "unfinished-prefect.db").rename(path)
    return path


def _migrate(path: Path) -> None:
    environment = {
        **os.environ,
        "PREFECT_HOME": str(path.parent / "prefect-home"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{path}",
    }
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a tiny language model, for DRSR_BACKBONE."""
    return f"path:{build_tiny('llama', tmp_path_factory.mktemp('tiny') / 'model')}"


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory, migrated_prefect: Path) -> Iterator[None]:
    """A server for all flows that tests run in this process: Prefect keeps clients of the first one."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copyfile(migrated_prefect, folder / "prefect.db")
    with with_embedded_server(folder):
        yield
