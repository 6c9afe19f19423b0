"""Harms of Steps on disk: read again as they were, each with the task of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from drsr.offline.bench.analyses.granularity import StepHarm
from drsr.offline.bench.replay import measured_steps as module
from drsr.offline.bench.replay.measured_steps import MeasuredRun, measured_steps
from drsr.offline.bench.replay.recorded_runs import RunRow
from drsr.offline.label.records import LabelerIdentity

STEP = StepHarm("key", 0.25, 0.5, (0.5, -0.125))


def run(name: str, group: str) -> RunRow:
    return RunRow(0, "", "test", "s", name, group, None, {1: f"key of {name}"})


def test_a_run_is_what_was_written() -> None:
    """Without the task: the catalog knows it, and may learn better."""
    measured = MeasuredRun("s/a", ("key",), (STEP,))
    written = measured.to_json()
    assert written["steps"] == [["key", 0.25, 0.5, (0.5, -0.125)]]
    assert MeasuredRun.from_json(written) == measured


def test_steps_get_the_task_of_their_run_measured_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools: Any = MagicMock(identity=LabelerIdentity("double", "id", "float32", "chatml/1", "rule", 64))
    rows = [run("a", "one"), run("b", "one"), run("c", "two")]

    def found() -> list[StepHarm]:
        nothing: Any = MagicMock()
        return measured_steps(nothing, nothing, tools, rows, "test", 9, tmp_path, nothing)

    monkeypatch.setattr(module, "_measure", lambda catalog, artifacts, tools, row: (STEP,))
    first = found()
    assert [step.task for step in first] == ["one", "one", "two"]
    monkeypatch.delattr(module, "_measure")  # what was measured is kept
    assert found() == first
