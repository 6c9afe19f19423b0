"""A Prefect database that was migrated once: making one takes longer than most tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.flows.embedded_server import with_embedded_server
from tests.flows.sites import site
from tests.made_once import made_once
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


@pytest.fixture(scope="session")
def migrated_prefect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy."""
    return made_once(tmp_path_factory, "migrated-prefect", _migrate) / "prefect.db"


def _migrate(folder: Path) -> None:
    environment = {
        **os.environ,
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/prefect.db",
    }
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a tiny language model, for DRSR_BACKBONE."""
    return f"path:{made_once(tmp_path_factory, 'tiny-model', lambda folder: build_tiny('llama', folder))}"


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory, migrated_prefect: Path) -> Iterator[None]:
    """A server for all flows that tests run in this process: Prefect keeps clients of the first one."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copyfile(migrated_prefect, folder / "prefect.db")
    with with_embedded_server(folder):
        yield
