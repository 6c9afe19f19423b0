"""A remembered hash is used only while the file is the same."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from drsr.backbone import file_hashes
from drsr.backbone.file_hashes import file_sha256, remembered
from drsr.errors import BackboneCorrupt


class Counting:
    """Computes the hash and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path) -> str:
        self.calls += 1
        return file_sha256(path)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def file(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as old enough to be remembered."""
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", -1_000_000_000_000)
    path = tmp_path / "weights"
    path.write_bytes(b"some weights")
    return path


def test_an_unchanged_file_is_hashed_once(file: Path, counting: Counting) -> None:
    assert {remembered(file, counting, what="sha256") for _ in range(3)} == {file_sha256(file)}
    assert counting.calls == 1
    remembered(file, counting, what="another computation")
    assert counting.calls == 2
    assert remembered(file, counting, what="sha256") == file_sha256(file)
    assert counting.calls == 2


def test_a_change_is_noticed_even_if_size_and_modification_time_are_put_back(file: Path, counting: Counting) -> None:
    before, stat = remembered(file, counting, what="sha256"), file.stat()
    time.sleep(0.02)  # longer than one tick of the clock that stamps files
    file.write_bytes(b"SOME weights")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert remembered(file, counting, what="sha256") == file_sha256(file) != before


def test_a_file_of_this_moment_is_not_remembered(own_cache: Path, tmp_path: Path, counting: Counting) -> None:
    path = tmp_path / "new"
    path.write_bytes(b"just written")
    for _ in range(2):
        remembered(path, counting, what="sha256")
    assert counting.calls == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"state": 3}', '{"state": null, "hashes": []}'])
def test_an_unreadable_memory_is_replaced(file: Path, counting: Counting, own_cache: Path, damage: str) -> None:
    remembered(file, counting, what="sha256")
    (memory,) = (own_cache / "hashes").iterdir()
    memory.write_text(damage)
    assert remembered(file, counting, what="sha256") == file_sha256(file)
    assert counting.calls == 2
    remembered(file, counting, what="sha256")
    assert counting.calls == 2


def test_a_cache_that_cannot_be_written_costs_time_only(
    file: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DRSR_CACHE", str(file / "inside-a-file"))
    with caplog.at_level(logging.WARNING):
        assert remembered(file, counting, what="sha256") == file_sha256(file)
    assert "cannot remember the hash" in caplog.text


def test_a_file_that_changes_while_it_is_read(file: Path) -> None:
    def slow(path: Path) -> str:
        path.write_bytes(b"other bytes, longer than before")
        return "stale"

    with pytest.raises(BackboneCorrupt, match="changed while it was being read"):
        remembered(file, slow, what="sha256")
