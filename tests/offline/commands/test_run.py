"""`drsr run`: from recorded runs to a published policy, and what is left of it where a stage fails."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline.stages import NAMES
from drsr.offline.store import progress
from tests.flows.made_up_runs import write_params, write_runs
from tests.tiny_models import build_tiny


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with runs and parameters, and nothing done yet."""
    write_params(tmp_path)
    write_runs(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_BACKBONE", f"path:{build_tiny('llama', tmp_path / 'model')}")
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    return tmp_path


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["run", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--limit", "0"), "--limit must be at least 1, not 0"),
        (("--workers", "0"), "--workers must be at least 1, not 0"),
        (("--skip-training-below", "0"), "--skip-training-below must be at least 1, not 0"),
        (("--skip-training-below", "few"), "a share of the states that the scorer has seen"),
        (("nowhere",), "nothing is there"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], what: str
) -> None:
    before = sorted(place.rglob("*.json"))
    assert main(["run", *arguments]) == 2
    assert what in capsys.readouterr().err
    assert sorted(place.rglob("*.json")) == before


def test_until_a_stage_then_the_rest_then_nothing_then_a_refusal(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, done = ran(capsys, "runs", "--until", "label", "--limit", "1")
    assert (code, list(done)) == (0, ["ingest", "freeze", "label"])
    assert done["ingest"]["did"]["added"] == 8
    assert 0 < done["label"]["did"]["labelled"] < 16
    code, done = ran(capsys, "runs")
    assert (code, tuple(done)) == (0, NAMES)
    assert done["ingest"]["did"]["added"] == done["freeze"]["did"]["frozen"] == 0
    assert done["label"]["did"]["labelled"] > 0
    published = done["publish"]["did"]
    assert published["is_new"]
    assert "not worse than the released policy" in [gate["check"] for gate in published["gates"]]
    assert (place / published["wheel_file"]).is_file()
    code, done = ran(capsys, "runs")
    assert (code, done["label"]["did"]["states"], done["publish"]["did"]["is_new"]) == (0, 0, False)
    code, done = ran(capsys, "runs", "--skip-training-below", "1000")
    assert (code, tuple(done)) == (0, NAMES[: NAMES.index("train")])
    assert main(["dashboard", "--json", "--no-drift"]) == 0
    assert "wait for training, which begins with 1,000" in json.loads(capsys.readouterr().out)["nights"][-1]["said"]
    text = (place / "params.yaml").read_text()
    (place / "params.yaml").write_text(text.replace("max_mean_harm: 1.0", "max_mean_harm: -10.0"))
    code, done = ran(capsys, "runs")
    assert (code, done["publish"]["code"]) == (1, 1)
    failed = [gate["check"] for gate in done["publish"]["did"]["gates"] if not gate["passed"]]
    assert "admissible" in failed


def test_a_source_is_named_as_for_a_night(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the same folder would be two sources, `agents` of the night and `runs` of this, and each run count twice."""
    assert main(["ingest", "runs", "--source", "agents"]) == 0
    capsys.readouterr()
    code, done = ran(capsys, "runs", "--source", "agents", "--until", "ingest")
    assert (code, done["ingest"]["did"]["added"]) == (0, 0)


def test_a_stage_that_fails_is_the_last(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one run nothing can be learned and judged: its split is one of three."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)  # a slow machine would say how far it is
    for path in (place / "runs").glob("[!t]*.json"):
        path.unlink()
    assert main(["run", "runs"]) == 2
    captured = capsys.readouterr()
    headings = [line for line in captured.out.splitlines() if line.removesuffix(":") in NAMES]
    assert headings[:4] == ["ingest:", "freeze:", "label:", "featurize:"]
    assert headings[-1] in ("train:", "calibrate:")
    assert "hint" in captured.err
    code, done = ran(capsys, "runs")
    assert (code, [f"{stage}:" for stage in done]) == (2, headings)
    *before, failed = done.values()
    assert all(stage["code"] == 0 and "did" in stage for stage in before)
    assert failed.keys() == {"seconds", "error"}
    assert captured.err == f"drsr: {failed['error']}\n"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError("no space left"), 3, "OSError: no space left"),
        (ModuleNotFoundError("No module named 'scipy'", name="scipy"), 2, "No module named 'scipy'"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_whatever_ends_a_stage_the_stages_before_are_told(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    told: str,
) -> None:
    def freeze(options: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr("drsr.offline.commands.stages.freeze.run", freeze)
    ended, done = ran(capsys, "runs")
    assert (ended, list(done)) == (code, ["ingest", "freeze"])
    assert done["ingest"]["did"]["added"] == 8
    assert told in done["freeze"]["error"]
