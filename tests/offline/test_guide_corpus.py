"""The guide keeps its word: every command of docs/guides/corpus.md runs, in its order, and its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from drsr.cli import main
from drsr.offline.ingest.corpus.origins import Reason
from drsr.offline.ingest.corpus.table import COLUMNS, DOMAINS
from tests.offline.public_host import public_host
from tests.offline.small_corpus import CONTENTS, mirrored, publish, row, write_table

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "corpus.md").read_text()
COMMANDS = re.findall(r"^\$ drsr (.*)\n((?:(?!\$ |```).*\n)*)", GUIDE, re.MULTILINE)


def test_the_tables_are_complete() -> None:
    for name in get_args(Reason):
        assert f"| `{name}` |" in GUIDE
    for name in (*COLUMNS, *DOMAINS):
        assert f"`{name}`" in GUIDE


def test_the_guide_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder whose own `public` corpus is small, with a host on loopback in place of the public one."""
    assert [command.split()[1] for command, _ in COMMANDS] == ["list", "fetch", "check", "fetch"]
    monkeypatch.chdir(tmp_path)
    mirror = mirrored(tmp_path / "mirror")
    with public_host() as host:
        publish(host)
        for command, shown in COMMANDS:
            words = shlex.split(command.replace("/srv/corpora/public", str(mirror)))
            if words[1] == "fetch":
                write_table(tmp_path, [row(local, data) for local, data in CONTENTS.items()], "public")
                words += [] if "--mirror" in words else ["--host", host.url]
            assert main(words) == 0, command
            pattern = "".join(_pattern(line) for line in shown.splitlines())
            out = capsys.readouterr().out
            assert re.fullmatch(pattern, out, re.DOTALL), f"{command} no longer prints\n{shown}\nbut\n{out}"


def _pattern(line: str) -> str:
    return ".*" if line == "..." else re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"
