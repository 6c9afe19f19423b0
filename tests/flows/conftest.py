"""A Prefect database that was migrated once: making one takes longer than most tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline.conftest import bucket, finished_pipeline, pipeline
from tests.tiny_models import build_tiny

__all__ = ["bucket", "finished_pipeline", "migrated_prefect", "pipeline", "tiny_model"]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def migrated_prefect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy."""
    folder = tmp_path_factory.mktemp("prefect")
    path = folder / "prefect.db"
    environment = {
        **os.environ,
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{path}",
    }
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a tiny language model, for DRSR_BACKBONE."""
    return f"path:{build_tiny('llama', tmp_path_factory.mktemp('tiny') / 'model')}"
