"""`drsr audit` on the command line: the table, the JSON, the report, exit codes, and what bad input gets."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.errors import ScorerNotTrained
from drsr.expectations.judging import CRITICAL_RULES
from drsr.offline.audit import journal
from drsr.offline.audit.checks import data_rules
from drsr.offline.audit.running import CHECKS, RETRAIN
from drsr.offline.calibrate.stage import calibrate
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.train.stage import read_inputs
from tests.offline.audit.published import PublishedPipeline, by_hand
from tests.offline.small_pipeline import quick_params
from tests.tiny_models import build_tiny

Run = Callable[..., int]


@pytest.fixture
def run(release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    for name, value in release.pipeline.settings.items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: main(["audit", "--sample", "1", *arguments])


def test_an_untouched_catalog_passes_every_check_and_stays_untouched(
    run: Run,
    release: PublishedPipeline,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every expectation among them; the latest release is audited from the artifact store, its sample is drawn."""
    before = held(release)
    monkeypatch.setattr("secrets.randbelow", lambda most: most - 7)
    monkeypatch.setattr("drsr.offline.store.progress.SECONDS_BETWEEN_LINES", 0.0)
    assert run("--json", "--html", str(tmp_path / "audit.html")) == 0
    assert held(release) == before
    said = capsys.readouterr()
    shown = json.loads(said.out)
    assert shown["passed"] is True
    assert shown["first_lines"] == []
    told = [line.rpartition(", ")[2] for line in said.err.splitlines() if line.startswith("audit: ")]
    assert list(dict.fromkeys(told)) == [check.name for check in (*CHECKS, RETRAIN)]  # progress, check by check
    assert shown["seed"] == (1 << 32) - 7
    assert [check["name"] for check in shown["checks"]] == [check.name for check in (*CHECKS, RETRAIN)]
    verdicts = [verdict for check in shown["checks"] for verdict in check["verdicts"]]
    assert all(verdict["passed"] for verdict in verdicts)
    rules = {verdict["check"] for verdict in verdicts if ": " in verdict["check"]}
    assert len(rules) > 50
    assert {f"{dataset}: {rule}" for dataset, rule in CRITICAL_RULES} <= rules
    assert set(shown["versions"]) >= {"drsr", "python", "torch", "great_expectations"}
    text = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert all(rule.replace("'", "&#x27;").replace(">", "&gt;") in text for rule in rules)


def held(release: PublishedPipeline) -> tuple[list[str], set[str]]:
    """Every row of the catalog, and every file of the artifact store."""
    connection = sqlite3.connect(release.pipeline.folder / "catalog.sqlite")
    try:
        rows = list(connection.iterdump())
    finally:
        connection.close()
    return rows, {path.name for path in (release.pipeline.folder / "artifacts").rglob("*")}


def test_a_leak_fails_the_audit_and_the_expectation_that_forbids_it(
    run: Run, release: PublishedPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole audit: a test run is moved into the training split, by hand."""
    by_hand(release.pipeline, "UPDATE trajectory SET split = 'train' WHERE split = 'test'")
    assert run("--policy", str(release.wheel)) == 1
    said = capsys.readouterr()
    table = said.out.split("\n\n")[1].splitlines()[2:]
    failed = [line for line in table if " FAILED " in line]
    assert table[: len(failed)] == failed  # what failed comes first, the worst of it before the rest
    assert [line.split()[0] for line in failed] == sorted(line.split()[0] for line in failed)
    assert any(line.split("  ")[1:2] == ["critical"] and "splits hold" in line for line in failed)
    assert any("splits: a trajectory is in its group's split" in line for line in failed)
    assert "hint: " in said.out
    assert "checks FAILED" in said.out
    assert "checks failed" in said.err


def test_without_a_release_the_latest_calibration_is_audited(
    run: Run, release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand(release.pipeline, "DELETE FROM policy_release")
    without = (data_rules.CHECK, journal.CHECK)  # the journal knows of the release that was deleted by hand
    monkeypatch.setattr("drsr.offline.audit.running.CHECKS", tuple(c for c in CHECKS if c not in without))
    assert run() == 0
    said = capsys.readouterr().out
    assert "audited: the latest plain calibration" in said
    assert "nothing is published yet" in said


def test_which_calibration_is_audited(release: PublishedPipeline) -> None:
    """The released policy's; else the latest of the mode that is asked for, whatever else was tried since."""
    pipeline = release.pipeline

    def key(**order: Any) -> str:
        return Subject(pipeline.catalog, pipeline.artifacts, Order(**order)).calibration.calibration_key

    plain = pipeline.calibration.calibration_key
    inputs = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "calibrate")
    tried = calibrate(pipeline.catalog, pipeline.artifacts, inputs, quick_params(), certified=True).record
    assert (tried.mode, key(), key(certified=True)) == ("certified", plain, plain)
    by_hand(pipeline, "DELETE FROM policy_release")
    assert (key(), key(certified=True)) == (plain, tried.calibration_key)
    by_hand(pipeline, "DELETE FROM calibration_run WHERE mode = 'plain'")
    assert key(certified=True) == tried.calibration_key
    with pytest.raises(ScorerNotTrained, match="nothing is calibrated in the plain mode") as refusal:
        key()
    assert "drsr audit --certified" in str(refusal.value)


def test_what_cannot_be_audited(
    run: Run, release: PublishedPipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--policy", "no-such.whl") == 2
    assert "there is no such folder or wheel" in capsys.readouterr().err
    assert run("--html", str(tmp_path)) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
    for sample in ("0", "-3", "some"):
        with pytest.raises(SystemExit, match="2"):
            main(["audit", f"--sample={sample}"])
    assert "neither a number of states nor all" in capsys.readouterr().err
    for table in ("policy_release", "calibration_run"):
        by_hand(release.pipeline, f"DELETE FROM {table}")
    assert run() == 2
    said = capsys.readouterr().err
    assert "nothing is calibrated yet, so there is nothing to audit" in said
    assert "drsr calibrate" in said


@pytest.mark.parametrize("package", ["great_expectations", "drsr.expectations"])
def test_without_the_judge_there_is_no_audit(
    run: Run, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    assert run() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"needs the package {package!r}" in said.err
    assert "drsr[flows]" in said.err


def test_another_model_under_the_same_name_is_a_failure(
    run: Run,
    release: PublishedPipeline,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = build_tiny("qwen3", tmp_path / "other-model")
    monkeypatch.setattr("drsr.offline.audit.running.CHECKS", tuple(c for c in CHECKS if c is not data_rules.CHECK))
    assert run("--backbone", f"path:{other}", "--json") == 1
    verdicts = {
        verdict["check"]: verdict
        for check in json.loads(capsys.readouterr().out)["checks"]
        for verdict in check["verdicts"]
    }
    failed = {name for name, verdict in verdicts.items() if not verdict["passed"]}
    of_runs = {"states frozen again", "no future in a feature", "labels remeasured"}
    assert failed == {"weight files", "golden requests", *of_runs}
    assert "on this machine is" in verdicts["labels remeasured"]["detail"]
    assert "--backbone path:FOLDER" in verdicts["labels remeasured"]["hint"]
