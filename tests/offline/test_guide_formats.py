"""The guide keeps its word: the files and commands of docs/guides/formats.md, with a package that pip installs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest import stage
from drsr.offline.ingest.formats.plug_ins import plug_ins
from tests.offline.chat_files import write_text

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "formats.md").read_text()
BLOCKS = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def no_plug_ins() -> Iterator[None]:
    """Leave no reader behind for other tests of this process."""
    plug_ins.cache_clear()
    yield
    plug_ins.cache_clear()
    sys.modules.pop("acme_drsr", None)


@pytest.mark.usefixtures("no_plug_ins")
def test_a_mapping_and_a_package_read_what_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    monkeypatch.setenv("DRSR_CATALOG_URL", "sqlite:///catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", "artifacts")
    blocks = BLOCKS.findall(GUIDE)
    desk, mapping, with_mapping, pyproject, module, call, with_package = (text for _, text in blocks)
    write_text(tmp_path / "desk" / "1.json", desk)
    write_text(tmp_path / "desk.toml", mapping)
    write_text(tmp_path / "package" / "pyproject.toml", pyproject)
    write_text(tmp_path / "package" / "acme_drsr.py", module)
    write_text(tmp_path / "calls" / "1.json", call)
    says(with_mapping, capsys)
    install(tmp_path / "package", tmp_path / "installed")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    plug_ins.cache_clear()
    with pytest.raises(SystemExit):
        main(["ingest", "--help"])
    assert "acme (of the package acme-drsr 1.0)" in " ".join(capsys.readouterr().out.split())
    says(with_package, capsys)
    with open_catalog("sqlite:///catalog.sqlite") as catalog, catalog.reading() as connection:
        found = connection.exec_driver_sql("SELECT reader, task, external_id FROM trajectory ORDER BY id").all()
    assert tuple(found[1]) == ("acme/1", "late-parcel", "1.json#s-1")
    assert found[0][0].startswith("mapping/1-")
    # As every night reads it, and with another mapping the file is read again.
    write_text(tmp_path / "feeds.toml", '[desk]\nmapping = "desk.toml"\n')
    assert main(["ingest", "desk"]) == 0
    assert "nothing new" in capsys.readouterr().out
    write_text(tmp_path / "desk.toml", mapping.replace('task = "ticket.number"\n', ""))
    assert main(["ingest", "desk", "--json"]) == 0
    assert '"unchanged_files": 0' in capsys.readouterr().out


def says(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command of the guide and compare what it prints."""
    command, _, shown = block.partition("\n")
    assert main(shlex.split(command.removeprefix("$ drsr "))) == 0
    said, expected = capsys.readouterr().out.splitlines(), shown.splitlines()
    assert said[0].startswith(expected[0].removesuffix(" ..."))
    assert said[1:] == expected[1:]


def install(package: Path, target: Path) -> None:
    """Install by pip, with the build backend that is there: nothing is fetched."""
    assert tomllib.loads((package / "pyproject.toml").read_text())["build-system"]["requires"] == ["hatchling"]
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--no-warn-conflicts", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(package)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
