"""The guide keeps its word: every command and every snippet of docs/guides/audit.md runs, in its order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from drsr.cli import main
from drsr.offline.audit.running import CHECKS, RETRAIN
from tests.offline.audit.published import PublishedPipeline

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "audit.md").read_text()
BLOCKS = re.findall(r"```(console|python|sh)\n(.*?)```", GUIDE, re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Ran(NamedTuple):
    code: int
    out: str


def test_there_is_something_to_run() -> None:
    assert [kind for kind, _ in BLOCKS] == ["sh", "console", "console", "python", "console"]
    assert GUIDE.count("$ drsr ") + GUIDE.count(".sqlite drsr ") == 3


@pytest.mark.parametrize("heading", ["What each check asks", "What each verdict can and cannot see"])
def test_the_tables_name_every_check(heading: str) -> None:
    rows = [line.split(" | ") for line in GUIDE.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines()]
    columns = {len(row) for row in rows if row[0].startswith("| ")}
    assert columns == {3}
    named = {row[0].removeprefix("| ") for row in rows}
    assert {check.name for check in (*CHECKS, RETRAIN)} <= named


def test_the_guide_runs_from_top_to_bottom(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder with the catalog, the artifacts and the packages; the language model is the tiny one of the tests."""
    folder = release.pipeline.folder
    release.packages.rename(folder / "packages")
    monkeypatch.chdir(folder)
    version = next(path.name for path in (folder / "packages" / "drsr-policy").glob("*.whl")).split("-")[1]
    code = 0
    for kind, text in BLOCKS:
        said = text.replace("2026.11.16", version)
        if kind == "sh":
            for line in said.splitlines():
                words = shlex.split(line, comments=True)
                if words[0] == "export":
                    monkeypatch.setenv(*words[1].split("=", 1))
                else:
                    assert main(words[1:]) == 0, line
            capsys.readouterr()
        elif kind == "python":
            exec(compile(said, "audit.md", "exec"), {})  # noqa: S102 - our own text, the point of the test
        else:
            for command, shown in COMMAND.findall(said):
                if command == "echo $?":
                    assert int(shown) == code
                    continue
                code, out = _run(command, monkeypatch, capsys)
                pattern = "".join(_pattern(line) for line in shown.splitlines())
                assert re.match(pattern, out, re.DOTALL), f"{command} no longer prints\n{shown}\nbut\n{out}"
                assert code == (1 if "FAILED" in shown else 0), command
    assert (folder / "audit.html").stat().st_size > 10_000


def _run(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    words = shlex.split(command)
    with monkeypatch.context() as changed:
        while "=" in words[0]:
            changed.setenv(*words.pop(0).split("=", 1))
        if words[0] != "drsr":
            done = subprocess.run(words, check=True, capture_output=True, text=True, env=dict(os.environ))
            return Ran(done.returncode, done.stdout)
        code = main(words[1:])
    return Ran(code, capsys.readouterr().out)


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return ".*"
    return re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"
