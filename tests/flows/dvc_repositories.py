"""A DVC repository like a clone of the project, in a folder of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from drsr.offline.params import load_params
from scripts.code_map import ROOT
from tests.offline.small_pipeline import EPOCHS, quick_params

_GIT = ("git", "-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "init.defaultBranch=main")


def new_repository(folder: Path) -> Path:
    """With few epochs and wide limits: `quick_params`, as a file."""
    folder.mkdir(parents=True)
    for name in (".dvc/config", ".dvc/plots.html", ".dvc/.gitignore", ".dvcignore", ".gitignore", "dvc.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    text = (ROOT / "params.yaml").read_text()
    for found, quick in (
        ("max_epochs: 300", f"max_epochs: {EPOCHS}"),
        ("seeds: [11, 29, 47]", "seeds: [11, 29]"),
        ("  max_unsafe_rate: 0.10        # among the sets", "  max_unsafe_rate: 0.9        # among the sets"),
        ("max_mean_harm: 0.02 ", "max_mean_harm: 1.0 "),
    ):
        assert found in text
        text = text.replace(found, quick)
    (folder / "params.yaml").write_text(text)
    assert load_params(folder / "params.yaml") == quick_params()
    # What dvc.yaml ingests; DVC looks at it and the test's runs come from elsewhere.
    corpus = folder / "drsr" / "offline" / "samples" / "sandbox.jsonl.gz"
    corpus.parent.mkdir(parents=True)
    shutil.copy(ROOT / corpus.relative_to(folder), corpus)
    git(folder, "init", "--quiet")
    commit(folder, "begin")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run([*_GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, message: str) -> str:
    """Everything that git does not ignore; returns the revision."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()
