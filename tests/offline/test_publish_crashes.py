"""Killed before any of its steps, a publisher leaves nothing that is wrong, and the next one finishes its work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline.small_pipeline import Pipeline

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_killed_at_every_step(finished_pipeline: Pipeline, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.offline.killed_publish"]
    command += [str(finished_pipeline.folder), str(tmp_path), finished_pipeline.backbone]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rounds = [json.loads(line) for line in ran.stdout.splitlines()]
    *killed, undisturbed = rounds
    assert not undisturbed["killed"]
    assert len(killed) >= 8  # two artifacts, the wheel, two pages, and the catalog's transactions
    assert all(found["killed"] for found in killed)
    wheels = [name for name in undisturbed["after"] if name.endswith(".whl")]
    assert len(wheels) == len(undisturbed["rows"]) == 1
    for found in rounds:
        assert found["after"] == undisturbed["after"], found["step"]
        assert found["rows"] == undisturbed["rows"]
        assert found["facts"] == undisturbed["facts"]
        # At no moment did the catalog name a release whose files were not complete, nor a page a missing wheel.
        visible = {name: digest for name, digest in found["then"].items() if not name.endswith(".part")}
        if found["rows_then"]:
            assert visible == undisturbed["after"]
        assert visible.items() <= undisturbed["after"].items()
        if "drsr-policy/index.html" in visible:
            assert wheels[0] in visible
    assert any(not found["then"] for found in killed)
    assert any(wheels[0] in found["then"] and not found["rows_then"] for found in killed)
