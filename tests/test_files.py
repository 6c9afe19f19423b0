"""Files are written whole or not at all, and the same bytes once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drsr.files import write_atomically, write_if_changed


@pytest.mark.parametrize("sync", [False, True])
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, sync: bool) -> None:
    kept = tmp_path / "cache"
    kept.write_bytes(b"kept")
    path = tmp_path / "below" / "file"
    path.parent.mkdir()
    path.symlink_to(kept)
    write_atomically(path, b"new", sync=sync)
    assert (path.read_bytes(), kept.read_bytes(), path.is_symlink()) == (b"new", b"kept", False)
    assert os.listdir(path.parent) == ["file"]


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")

    def no_space(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"after", sync=True)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"before", ["file"])


def test_the_same_bytes_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file"
    write_if_changed(path, b"one")
    before = path.stat()
    write_if_changed(path, b"one")
    assert path.stat() == before
    write_if_changed(path, b"two")
    assert path.read_bytes() == b"two"


def test_a_link_in_the_place_of_an_unfinished_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one whose name was guessed."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * size)
    kept = tmp_path / "kept"
    kept.write_bytes(b"kept")
    (tmp_path / f".file.{os.getpid()}.{'0' * 8}.part").symlink_to(kept)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "file", b"new")
    assert kept.read_bytes() == b"kept"


def test_who_may_read_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"mine", mode=0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
