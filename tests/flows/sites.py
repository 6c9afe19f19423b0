"""A working folder in which flows of this process find recorded runs, parameters and places for what they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.flows.parameters import Location
from tests.flows.made_up_runs import write_params, write_runs

RUNS = [Location(uri="runs", source="runs")]


@pytest.fixture
def site(tmp_path: Path, tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with recorded runs and parameters. Nothing is in the catalog yet."""
    folder = tmp_path / "site"
    folder.mkdir()
    write_params(folder)
    write_runs(folder / "runs")
    settle(
        folder,
        monkeypatch,
        DRSR_CATALOG_URL=f"sqlite:///{folder}/catalog.sqlite",
        DRSR_ARTIFACT_ROOT=str(folder / "artifacts"),
        DRSR_BACKBONE=tiny_model,
    )
    return folder


def settle(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    monkeypatch.chdir(folder)
    for name, value in {**settings, "DRSR_CACHE": str(folder / "cache")}.items():
        monkeypatch.setenv(name, value)
