"""The `drsr` command in this process, with a catalog and an artifact folder of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drsr.cli import main
from drsr.offline.ingest import stage


class Outcome(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Drsr = Callable[..., Outcome]


@pytest.fixture
def drsr(empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Drsr:
    """Run a command; the database has no tables yet."""
    monkeypatch.setenv("DRSR_CATALOG_URL", empty_url)
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        return Outcome(code, *capsys.readouterr())

    return run
