"""The README keeps its word: its maps are up to date, its Python runs, its commands print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from drsr.cli import main
from scripts.code_map import MAPS, README, ROOT, rewritten

TEXT = README.read_text()
CONSOLE = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def _in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of its own in which the README's relative paths lead to the files."""
    (tmp_path / "drsr").symlink_to(ROOT / "drsr")
    monkeypatch.chdir(tmp_path)
    for name in ("CATALOG_URL", "ARTIFACT_ROOT", "BACKBONE", "DEVICE", "DTYPE"):
        monkeypatch.delenv(f"DRSR_{name}", raising=False)


@pytest.mark.parametrize("page", MAPS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_map_is_up_to_date(page: Path) -> None:
    assert rewritten(page) == page.read_text(), "run: python scripts/code_map.py"


def test_there_is_something_to_run() -> None:
    assert sum(block.count("$ drsr ") for block in CONSOLE) >= 4
    assert len(PYTHON) >= 1


@pytest.mark.usefixtures("_in_a_copy")
def test_the_commands_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Every `$ drsr` line in order, in one folder. `...` stands for anything; other lines must appear in this order."""
    for block in CONSOLE:
        for command, shown in re.findall(r"^\$ drsr (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert main(shlex.split(command)) == 0, command
            pattern = "".join(_pattern(line) for line in shown.splitlines())
            assert re.match(pattern, capsys.readouterr().out, re.DOTALL), f"drsr {command} no longer prints\n{shown}"


def _pattern(line: str) -> str:
    return ".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"


@pytest.mark.usefixtures("_in_a_copy")
@pytest.mark.parametrize("source", PYTHON)
def test_the_python_runs(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102 - our own text, and the point of the test
    assert capsys.readouterr().out != ""
