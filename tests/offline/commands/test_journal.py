"""`drsr journal`: the head, every event, and a line of it elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.errors import InputError
from drsr.offline.audit.moments import read_anchor
from drsr.offline.commands.journal import anchor
from tests.offline.commands.conftest import Drsr


def test_the_head_and_all_events(drsr: Drsr, tmp_path: Path) -> None:
    drsr("catalog", "upgrade")
    shown = drsr("journal")
    assert shown.code == 0
    number, sha256 = shown.out.split()
    assert (number, len(sha256)) == ("1", 64)
    assert drsr("journal", "--json").json == {"number": 1, "sha256": sha256}
    assert sha256 in drsr("journal", "--list").out
    heads = tmp_path / "heads"
    for _ in range(2):
        assert drsr("journal", "--anchor", str(heads)).code == 0
    assert [str(kept.head) for kept in read_anchor(heads.read_bytes())] == [f"1 {sha256}"] * 2


def test_a_link_is_not_followed(drsr: Drsr, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine\n")
    (tmp_path / "heads").symlink_to(tmp_path / "elsewhere")
    drsr("catalog", "upgrade")
    refused = drsr("journal", "--anchor", str(tmp_path / "heads"))
    assert refused.code != 0
    assert "cannot be added to" in refused.err
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be added to"):
        anchor(tmp_path, "1 x")
