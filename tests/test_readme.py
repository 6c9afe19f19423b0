"""The README and the guide to making a policy keep their word: maps, Python, and what commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from drsr.cli import main
from scripts.code_map import MAPS, README, ROOT, rewritten

PAGES = {page.name: page.read_text() for page in (README, ROOT / "docs" / "guides" / "make-a-policy.md")}
CONSOLE = {name: re.findall(r"```console\n(.*?)```", text, re.DOTALL) for name, text in PAGES.items()}
PYTHON = [block for text in PAGES.values() for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


@pytest.fixture
def _in_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder in which the relative paths of the pages lead to the files."""
    (tmp_path / "drsr").symlink_to(ROOT / "drsr")
    monkeypatch.chdir(tmp_path)
    for name in ("CATALOG_URL", "ARTIFACT_ROOT", "BACKBONE", "DEVICE", "DTYPE"):
        monkeypatch.delenv(f"DRSR_{name}", raising=False)


@pytest.mark.parametrize("page", MAPS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_map_is_up_to_date(page: Path) -> None:
    assert rewritten(page) == page.read_text(), "run: python scripts/code_map.py"


def test_there_is_something_to_run() -> None:
    for page, blocks in CONSOLE.items():
        assert sum(block.count("$ drsr ") for block in blocks) >= 4, page
    assert len(PYTHON) >= 3


def test_the_readme_is_short() -> None:
    assert len(PAGES[README.name].splitlines()) <= 250


def test_the_readme_links_to_files_that_exist() -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[README.name])
    assert "docs/way-of-a-run.svg" in linked
    assert [link for link in linked if not (ROOT / link).exists()] == []


@pytest.mark.usefixtures("_in_a_copy")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_print_what_is_shown(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a page's `$ drsr` lines in order, in one folder. `...` is anything; other lines must appear as shown."""
    for block in CONSOLE[page]:
        for command, shown in re.findall(r"^\$ drsr (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert main(shlex.split(command)) == 0, command
            pattern = "".join(_pattern(line) for line in shown.splitlines())
            assert re.match(pattern, capsys.readouterr().out, re.DOTALL), f"drsr {command} no longer prints\n{shown}"


def _pattern(line: str) -> str:
    return ".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"


@pytest.mark.parametrize("source", PYTHON)
def test_the_python_runs_in_an_empty_folder_and_again(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader has no checkout beside the example, and runs it more than once."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names: dict[str, object] = {}
        exec(compile(source, "a page", "exec"), names)  # noqa: S102 - our own text, and the point of the test
        assert capsys.readouterr().out != ""
