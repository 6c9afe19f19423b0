"""`drsr label`: what it says when there is nothing to do, when workers die, and when labels are remeasured."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.label import worker as label_workers
from drsr.offline.label.worker import LabelOrder
from drsr.offline.store.worker_processes import Report
from tests.offline.chat_files import chat, write_json
from tests.offline.commands.conftest import Drsr

STATES = 4
really_work = label_workers.work


@pytest.fixture
def ready(drsr: Drsr, tmp_path: Path) -> Drsr:
    """Runs with one state each, frozen."""
    for seed in range(STATES):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=5))
    drsr("ingest", "runs")
    assert drsr("freeze", "--json").json["states"] == STATES
    return drsr


def work_unless_first(order: LabelOrder, report: Report) -> dict[str, Any]:
    """The first of the workers that come here is killed."""
    try:
        os.open(Path(order.settings.artifact_root) / "killed", os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return really_work(order, report)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


def fail(order: LabelOrder, report: Report) -> dict[str, Any]:
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_killed_worker_is_told_and_counts_where_its_share_was_left(
    ready: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_workers, "work", work_unless_first)
    limited = ready("label", "--limit", str(STATES), "--workers", "2", "--json")
    assert limited.code == 1
    assert (limited.json["states"], limited.json["lost_workers"], limited.json["left"]) == (2, 1, 2)
    assert " of 2 was killed by SIGKILL\n" in limited.err
    assert "2 of 4 states were not done because of it; run again" in limited.err
    (tmp_path / "artifacts" / "killed").unlink()
    taken_over = ready("label", "--workers", "2")
    assert (taken_over.code, "2 states labelled" in taken_over.out) == (0, True)
    assert taken_over.err.endswith(" of 2 was killed by SIGKILL\n  the others did its work\n")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_s_error_says_what_is_left(ready: Drsr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_workers, "work", fail)
    failed = ready("label", "--workers", "2")
    assert failed.code == 2
    assert "worker 1, 2 of 2: internal error: ZeroDivisionError: planted" in failed.err
    assert f"hint: {STATES} states are left; this is a fault of drsr" in failed.err
    assert "Traceback" not in failed.err


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_remeasured_sample_is_a_new_one_each_time_and_says_which(ready: Drsr) -> None:
    ready("label")
    seeds = {ready("label", "--remeasure", "2", "--json").json["seed"] for _ in range(3)}
    assert len(seeds) == 3
    told = ready("label", "--remeasure", "2", "--seed", "7")
    assert told.code == 0
    assert told.out.endswith("  the sample of seed 7\n")
    assert "(at most 0.0001 in float32), 0 verdicts changed" in told.out
    assert ready("label", "--seed", "7").code == 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_measuring_again_what_was_excluded(ready: Drsr) -> None:
    ready("label")
    none = ready("label", "--again", "out_of_memory")
    assert (none.code, none.out) == (0, "nothing to label: every frozen state is measured\n")
    assert "0 states excluded as out_of_memory are measured again" in none.err
    assert "one of them" in ready("label", "--again", "non_finite", "--remeasure", "2").err


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_remeasuring_keeps_to_the_part(ready: Drsr) -> None:
    ready("label")
    found = {
        split: ready("label", "--remeasure", "100", "--where", f"split={split}", "--json")
        for split in ("train", "validation", "test")
    }
    assert sum(shown.json["states"] for shown in found.values() if shown.code == 0) == STATES
    empty = [shown for shown in found.values() if shown.code]
    assert empty, "so that there is a part without a state"
    assert all("has labelled no state of this part" in shown.err for shown in empty)
