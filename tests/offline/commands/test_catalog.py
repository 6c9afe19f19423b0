"""`drsr catalog upgrade | downgrade | check` as people run it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from drsr.offline.catalog.engine import connect
from drsr.offline.catalog.migrations import REVISION
from tests.offline.chat_files import chat, write_json
from tests.offline.commands.conftest import Drsr


def test_up_and_down_and_up_again(drsr: Drsr) -> None:
    assert drsr("catalog", "upgrade").out == f"the catalog went from revision none to {REVISION}\n"
    assert drsr("catalog", "upgrade").out == f"nothing to do: the catalog is at revision {REVISION}\n"
    down = drsr("catalog", "downgrade", "base", "--json")  # without rows there is nothing to confirm
    assert (down.code, down.json) == (0, {"before": REVISION, "after": None})
    assert drsr("catalog", "upgrade", "--json").json == {"before": None, "after": REVISION}
    checked = drsr("catalog", "check")
    assert (checked.code, checked.out) == (0, f"revision {REVISION}, expected {REVISION}: in order\n")


def test_deleting_rows_must_be_confirmed(drsr: Drsr, tmp_path: Path) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    drsr("ingest", "runs")
    refused = drsr("catalog", "downgrade", "base")
    assert (refused.code, refused.out) == (2, "")
    assert "1 of trajectory" in refused.err
    assert "--yes" in refused.err
    assert drsr("status", "--json").json["sources"][0]["trajectories"] == 1
    assert drsr("catalog", "downgrade", "base", "--yes").code == 0
    assert drsr("status").code == 2


@pytest.mark.parametrize("revision", ["0099", "nonsense"])
def test_an_unknown_revision_is_refused(drsr: Drsr, revision: str) -> None:
    drsr("catalog", "upgrade")
    refused = drsr("catalog", "downgrade", revision)
    assert refused.code == 2
    assert f"cannot go from revision {REVISION} to '{revision}'" in refused.err
    assert "the revisions are base, 0001" in refused.err


def test_a_difference_is_a_failed_check(drsr: Drsr, empty_url: str) -> None:
    drsr("catalog", "upgrade")
    with connect(empty_url, create=False) as catalog, catalog.writing() as connection:
        connection.execute(text("DROP TABLE trajectory_reward"))
    checked = drsr("catalog", "check")
    assert checked.code == 1
    assert "  table trajectory_reward is missing from the database\n" in checked.out
    shown = drsr("catalog", "check", "--json")
    assert (shown.code, shown.json["passed"]) == (1, False)
