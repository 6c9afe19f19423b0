"""A disk that is really full: the command says so, leaves nothing half written, and goes on once there is room."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.catalog.migrations import open_catalog
from tests.offline.chat_files import chat, write_json
from tests.offline.logical_content import content_hash_of_catalog

RUNS = 60


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB in memory. Only root may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def content(folder: Path) -> str:
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite") as catalog, catalog.reading() as connection:
        return content_hash_of_catalog(connection)


def ingested(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{folder}/catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(store))
    return main(["ingest", str(folder.parent / "runs")])


def test_a_full_disk(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(RUNS):
        write_json(tmp_path / "runs" / f"{number:03}.json", chat(number, steps=20) | {"task": f"task-{number}"})
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    store = small_disk / "artifacts"
    assert ingested(tmp_path / "here", store, monkeypatch) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "make room" in said
    for path in (path for path in store.rglob("*") if path.is_file()):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, "whole, and named by its bytes"
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert ingested(tmp_path / "here", store, monkeypatch) == 0
    assert ingested(tmp_path / "there", tmp_path / "undisturbed", monkeypatch) == 0
    assert content(tmp_path / "here") == content(tmp_path / "there")
