"""The kill switch is a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.proxy.kill_switch import KillSwitch


def test_a_file_a_folder_or_nothing(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "deep" / "off")
    assert not switch.engaged
    switch.path.parent.mkdir()
    assert not switch.engaged
    switch.path.touch()
    assert switch.engaged
    switch.path.unlink()
    switch.path.mkdir()
    assert switch.engaged
    assert not KillSwitch(tmp_path / "a-file" / "off").engaged
    (tmp_path / "a-file").touch()
    assert not KillSwitch(tmp_path / "a-file" / "off").engaged


def test_where_it_cannot_be_told_nothing_is_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **_: object) -> object:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", refuse)
    assert KillSwitch(tmp_path / "off").engaged
