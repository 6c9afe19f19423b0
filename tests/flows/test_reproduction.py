"""`dvc repro` on a fresh clone: the stages up to the labels really run, and give the bundled labels byte by byte.

The stages behind them are the same commands that other tests run one by one; all eight take minutes here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from drsr.flows.sample import BUNDLED
from scripts.code_map import ROOT
from tests.flows.dvc_repositories import commit, git
from tests.offline.test_stage_exports import content


def dvc(folder: Path, *arguments: str) -> str:
    """The `dvc` command; its `python` is this one, and its settings are the clone's own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRSR_")}
    cache = {"DRSR_CACHE": os.environ["DRSR_CACHE"]} if "DRSR_CACHE" in os.environ else {}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "dvc", *arguments]
    settings = {**environment, **cache, "PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clone(folder: Path) -> Path:
    """What git knows of the project, as it lies here."""
    for name in git(ROOT, "ls-files").splitlines():
        if (ROOT / name).exists() and not name.startswith(("tests/", "docs/", "corpora/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "--quiet")
    commit(folder, "a clone")
    return folder


def test_a_fresh_clone_reproduces_the_sample(tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    said = dvc(folder, "repro", "label")
    assert "bundled sample: labels of 98 states and features of 98 taken over" in said
    assert "nothing to label" in said
    assert content(folder / "exports" / "label" / "labels") == content(folder / "samples/measured/label/labels")
    names = [path.name for path in (folder / "exports" / "label" / "labels").iterdir()]
    assert all(name in (BUNDLED.root / "sample.json").read_text() for name in names)
    assert dvc(folder, "status", "label") == "Data and pipelines are up to date.\n"
    assert git(folder, "status", "--porcelain") == "?? dvc.lock\n"  # git sees the lock and nothing else
    assert "Running" not in dvc(folder, "repro", "label")
