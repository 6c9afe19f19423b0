"""`drsr` alone."""

from __future__ import annotations

import pytest

from drsr.cli import main
from drsr.commands import overview


def test_what_uses_policies_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert said.index("drsr wrap") < said.index("drsr explain") < said.index("ingest")
    assert len(said.splitlines()) <= 30
    assert max(map(len, said.splitlines())) <= 100


def test_without_the_offline_extra_its_commands_are_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MAKING_NEEDS", "a_package_that_is_not_there")
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "drsr serve" in said
    assert "ingest" not in said
