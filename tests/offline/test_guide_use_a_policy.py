"""The guide keeps its word: every command and every snippet of docs/guides/use-a-policy.md runs, in its order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline.publish.golden_requests import golden_requests
from tests.offline.small_pipeline import Pipeline

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "use-a-policy.md").read_text()
BLOCKS = re.findall(r"```(console|python)\n(.*?)```", GUIDE, re.DOTALL)


def test_there_is_something_to_run() -> None:
    assert [kind for kind, _ in BLOCKS].count("python") == 2
    assert sum(text.count("$ drsr ") for kind, text in BLOCKS if kind == "console") == 6


def test_the_guide_runs_from_top_to_bottom(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in pipeline.settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "drsr_policy", types.ModuleType("drsr_policy"))  # put back at the end ...
    del sys.modules["drsr_policy"]  # ... and not there yet
    sent: list[Any] = []
    completions = SimpleNamespace(create=lambda **options: sent.append(options["messages"]))
    names: dict[str, Any] = {
        "messages": golden_requests()["bundled sample"]["messages"],
        "tools": golden_requests()["bundled sample"].get("tools"),
        "client": SimpleNamespace(chat=SimpleNamespace(completions=completions)),
    }
    for kind, text in BLOCKS:
        if kind == "console":
            for command, shown in re.findall(r"^\$ drsr (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                assert main(shlex.split(command)) == 0, command
                said = capsys.readouterr().out
                pattern = "".join(_pattern(line) for line in shown.splitlines())
                assert re.match(pattern, said, re.DOTALL), f"drsr {command} no longer prints\n{shown}\nbut\n{said}"
                _install(tmp_path, monkeypatch)
        else:
            exec(compile(text, "use-a-policy.md", "exec"), names)  # noqa: S102 - our own text, the point of the test
            capsys.readouterr()
    assert len(sent) == 1
    assert names["policy"].version == "2026.11.16"


def _install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guide's section says, into a folder of this test's own, as soon as there is something to install."""
    if not (folder / "site").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        pip += ["--no-cache-dir", "--index-url", (folder / "packages").as_uri(), "--target", str(folder / "site")]
        subprocess.run([*pip, "drsr-policy"], check=True)
        monkeypatch.syspath_prepend(str(folder / "site"))


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return ".*"
    return re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"
