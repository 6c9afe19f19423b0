"""The label benchmark's verdicts: a missed target is said, and is its exit code."""

from __future__ import annotations

import argparse
import subprocess
from typing import Any

import pytest

from benchmarks.label import Row, report_memory, summarise

GOOD = Row(
    source="sample corpus",
    trajectory="a",
    states=3,
    contexts=24,
    context_tokens=900,
    naive_tokens=20_000,
    tree_tokens=5_000,
    processed_tokens=5_000,
    naive_s=40.0,
    engine_s=10.0,
    features_s=10.4,
    speedup=4.0,
    allowed=4.2,
    of_allowed=0.95,
    of_peak=0.7,
    largest_difference=1e-6,
)


def test_all_targets_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert summarise("sample corpus", [GOOD, GOOD], 1e-5)
    shown = capsys.readouterr().out
    assert (shown.count(": met\n"), "NOT MET" in shown) == (6, False)


@pytest.mark.parametrize(
    ("missed", "line"),
    [
        ({"speedup": 2.9}, "  speed-up 2.90 (at least 3.0): NOT MET"),
        ({"of_allowed": 0.89}, "0.89 (at least 0.9): NOT MET"),
        ({"of_peak": 0.5}, "  of the matrix-multiplication peak: 0.50 (at least 0.6): NOT MET"),
        ({"features_s": 10.6}, "  with features 1.060 (at most 1.05): NOT MET"),
        ({"processed_tokens": 5_001}, "5,001 processed (as in the trees): NOT MET"),
        ({"largest_difference": 2e-5}, "2.0e-05 nats per token (at most 1e-05): NOT MET"),
    ],
)
def test_a_missed_target(missed: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert not summarise("sample corpus", [GOOD._replace(**missed)], 1e-5)
    shown = capsys.readouterr().out
    assert line in shown
    assert (shown.count(": met\n"), shown.count("NOT MET")) == (5, 1)


@pytest.mark.parametrize(("engine", "met"), [(60.0, True), (61.0, False)])
def test_memory_is_judged_too(
    engine: float, met: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def scripted_run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout="60.0" if "loop" in command else str(engine))

    monkeypatch.setattr(subprocess, "run", scripted_run)
    options = argparse.Namespace(backbone="smollm2-135m", seed=0, trajectories=1)
    assert report_memory(options, 0) == met
    assert capsys.readouterr().out.endswith(f"(at most the loop's): {'met' if met else 'NOT MET'}\n")
