"""`drsr dashboard` and `drsr metrics`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.commands.conftest import Drsr


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_commands_write_both(drsr: Drsr, tmp_path: Path) -> None:
    assert drsr("catalog", "upgrade").code == 0
    assert drsr("dashboard", "pages/d.html").out.startswith(f"{tmp_path}/pages/d.html: 0 nights")
    assert "What waits" in (tmp_path / "pages" / "d.html").read_text()
    assert drsr("dashboard", "--json").json["nights"] == []
    printed = drsr("metrics")
    assert "drsr_nights 0.0\n" in printed.out
    assert drsr("metrics", "--output", "out/drsr.prom").out == ""
    assert (tmp_path / "out" / "drsr.prom").read_text() == printed.out
