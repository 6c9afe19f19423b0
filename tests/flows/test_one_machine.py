"""A refresh on one machine, as the guide says it: publishes, leaves a summary, finds nothing new the second time."""

from __future__ import annotations

import io
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import prefect.main  # noqa: F401 - sets up its logging once, and not in the middle of a test
import pytest
import yaml

from drsr.errors import InputError
from drsr.flows.one_machine import main, quieten_prefect
from drsr.flows.recording import changed
from drsr.offline.stages import NAMES
from tests.flows.dvc_repositories import new_repository
from tests.flows.guide import commands, prints
from tests.flows.made_up_runs import ROOT, write_runs


@pytest.fixture
def place(tmp_path: Path, migrated_prefect: Path, tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with runs and parameters of its own."""
    tmp_path = new_repository(tmp_path / "repository")
    write_runs(tmp_path / "runs")
    (tmp_path / "var" / "prefect").mkdir(parents=True)
    shutil.copyfile(migrated_prefect, tmp_path / "var" / "prefect" / "prefect.db")
    monkeypatch.chdir(tmp_path)
    for name in ("DRSR_CATALOG_URL", "DRSR_ARTIFACT_ROOT", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "DRSR_BACKBONE": tiny_model,
        "DRSR_CACHE": str(tmp_path / "cache"),
        "PREFECT_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC's use of pygtrie
@pytest.mark.timeout(900)  # two runs with a server each: half a minute on an idle machine
def test_the_guide_runs(place: Path) -> None:
    found = commands("On one machine")
    assert len(found) == 2
    for command in found:
        assert command.words[:3] == ("python", "-m", "drsr.flows.nightly")
        done = subprocess.run(
            [sys.executable, *command.words[1:]], capture_output=True, text=True, env=dict(os.environ)
        )
        assert (done.returncode, done.stderr) == (0, ""), "nothing but the summary, and no noise of the server"
        assert prints(command.shown, done.stdout), (
            f"{command.words} no longer prints\n{command.shown}\nbut\n{done.stdout}"
        )
    assert changed() == {}, "dvc status has nothing to say"
    assert set(yaml.safe_load((place / "dvc.lock").read_text())["stages"]) == set(NAMES)
    assert len(list((place / "var" / "index").rglob("*.whl"))) == 1
    assert kept(
        place, "SELECT flow.name, count(*) FROM flow JOIN flow_run ON flow.id = flow_id GROUP BY flow.name"
    ) == {
        **dict.fromkeys(NAMES, 1),
        "nightly": 2,
        "ingest": 2,
    }
    artifacts = kept(place, "SELECT key, type FROM artifact WHERE key IS NOT NULL")
    assert {
        "refresh": "markdown",
        "stages": "table",
        "policy": "table",
        "checks": "table",
        "operating-curve": "image",
    }.items() <= artifacts.items()
    assert {"wheel": "markdown", "index": "markdown"}.items() <= artifacts.items()
    states = kept(place, "SELECT state_type, count(*) FROM flow_run GROUP BY state_type")
    assert states == {"COMPLETED": 11}


def kept(place: Path, query: str) -> dict[str, object]:
    """From the embedded server's database."""
    connection = sqlite3.connect(place / "var" / "prefect" / "prefect.db")
    try:
        return dict(connection.execute(query).fetchall())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs", "--processes", "0"], "processes: Input should be greater than or equal to 1"),
        (["s3://key:secret@bucket/runs"], "put the credentials into the environment"),
        (["runs", "--index", ""], "--index names no folder"),
    ],
)
def test_bad_parameters_are_refused_before_anything_starts(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_ours_is_said_once_and_a_fault_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task and flow on its way logs it with a hundred lines of Prefect's calls. What Prefect keeps is kept."""
    above, ours = logging.getLogger(), logging.getLogger("prefect.flow_runs")
    levels = [(logger, logger.level) for logger in (*map(logging.getLogger, ("prefect", "prefect.task_runs")), ours)]
    shown, kept_there = (logging.StreamHandler(io.StringIO()) for _ in range(2))
    monkeypatch.setattr(above, "handlers", [shown])
    monkeypatch.setattr(ours, "handlers", [kept_there])
    monkeypatch.setattr(ours, "propagate", True)
    try:
        quieten_prefect(None)
        for error in (InputError("nothing is there"), ZeroDivisionError("a fault")):
            ours.error("Encountered exception: %r", error, exc_info=error)
        ours.error("Finished in state Failed()")
        ours.warning("the dashboard was not written")
    finally:
        for logger, level in levels:
            logger.setLevel(level)
    lines = shown.stream.getvalue().splitlines()
    assert (lines[0], lines[-1]) == (
        "Encountered exception: ZeroDivisionError('a fault')",
        "the dashboard was not written",
    )
    assert not [line for line in lines if "nothing is there" in line or line.startswith("Finished")]
    assert "nothing is there" in kept_there.stream.getvalue()


def test_a_fault_of_ours_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 would say that a check failed."""

    def fault(home: Path) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("drsr.flows.one_machine._server", fault)
    assert main(["runs"]) == 3
    assert "drsr: internal error: ZeroDivisionError: of ours" in capsys.readouterr().err
