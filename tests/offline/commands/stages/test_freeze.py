"""`drsr freeze`, and how it, `label` and `plan` take a source that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.chat_files import chat, write_json
from tests.offline.commands.conftest import Drsr


def test_what_waits_is_frozen_once(drsr: Drsr, tmp_path: Path) -> None:
    for seed, steps in ((1, 8), (2, 2)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    drsr("ingest", "runs")
    first = drsr("freeze")
    assert first.code == 0
    assert "2 trajectories frozen: " in first.out
    assert "1 without an eligible decision: too_few_candidates" in first.out
    assert drsr("freeze", "--source", "runs").out == "nothing to freeze: all 2 trajectories are frozen\n"
    nothing = {"frozen": 0, "states": 0, "without_states": {}, "up_to_date": 2, "cut_short": 0, "damaged": []}
    assert drsr("freeze", "--json").json == nothing


def test_damaged_bytes_of_one_run_stop_only_that_run(drsr: Drsr, tmp_path: Path) -> None:
    for seed in range(3):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=8))
        drsr("ingest", "runs")  # each in a file of its own
    damaged = min((path for path in (tmp_path / "artifacts").glob("??/*")), key=lambda path: path.stat().st_mtime_ns)
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[:50] + bytes([sound[50] ^ 1]) + sound[51:])
    first = drsr("freeze")
    assert first.code == 1
    assert "2 trajectories frozen: 6 decision states" in first.out
    assert first.err.startswith("drsr: runs/0.json#run-0: artifact ")
    assert "1 trajectories wait" in first.err
    assert "hint: restore the artifact folder" in first.err
    again = drsr("freeze", "--json")
    assert (again.code, again.json["frozen"], len(again.json["damaged"])) == (1, 0, 1)
    damaged.write_bytes(sound)
    assert drsr("freeze", "--json").json["frozen"] == 1


@pytest.mark.parametrize("command", ["freeze", "label", "plan"])
@pytest.mark.parametrize("source", ["nope", ""])
def test_an_unknown_source_is_refused(drsr: Drsr, tmp_path: Path, command: str, source: str) -> None:
    write_json(tmp_path / "runs" / "a.json", chat(1))
    drsr("ingest", "runs")
    refused = drsr(command, "--source", source)
    assert (refused.code, refused.out) == (2, "")
    assert f"no source is called {source!r}" in refused.err
    assert "the sources are runs" in refused.err


def test_without_a_catalog_there_is_nothing_to_freeze(drsr: Drsr) -> None:
    refused = drsr("freeze")
    assert (refused.code, refused.out) == (2, "")
    assert "hint: drsr " in refused.err
