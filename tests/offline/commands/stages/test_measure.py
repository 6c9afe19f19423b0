"""`drsr label` and `drsr featurize`: killed workers, remeasured labels, features, and how plan and status show them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.label import worker as label_workers
from drsr.offline.label.worker import WorkOrder
from drsr.offline.store.worker_processes import Report
from tests.offline.chat_files import chat, task_in_split, write_json
from tests.offline.commands.conftest import Drsr
from tests.tiny_models import build_tiny

STATES = 4
COLUMNS = 58 + 4 * (4 * 3 + 5) + 4 * 5 + 4 * 128
really_work = label_workers.work


@pytest.fixture
def scripted(drsr: Drsr, tmp_path: Path) -> Drsr:
    """Runs with one state each, frozen."""
    for seed in range(STATES):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=5))
    drsr("ingest", "runs")
    assert drsr("freeze", "--json").json["states"] == STATES
    return drsr


def work_unless_first(order: WorkOrder, report: Report) -> dict[str, Any]:
    """The first of the workers that come here is killed."""
    try:
        os.open(Path(order.settings.artifact_root) / "killed", os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return really_work(order, report)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives")


def fail(order: WorkOrder, report: Report) -> dict[str, Any]:
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_killed_worker_is_told_and_counts_where_its_share_was_left(
    scripted: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_workers, "work", work_unless_first)
    limited = scripted("label", "--limit", str(STATES), "--workers", "2", "--json")
    assert limited.code == 1
    assert (limited.json["states"], limited.json["lost_workers"], limited.json["left"]) == (2, 1, 2)
    assert " of 2 was killed by SIGKILL\n" in limited.err
    assert "2 of 4 states were not done because of it; run again" in limited.err
    (tmp_path / "artifacts" / "killed").unlink()
    taken_over = scripted("label", "--workers", "2")
    assert (taken_over.code, "2 states labelled" in taken_over.out) == (0, True)
    assert taken_over.err.endswith(" of 2 was killed by SIGKILL\n  the others did its work\n")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_s_error_says_what_is_left(scripted: Drsr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_workers, "work", fail)
    failed = scripted("label", "--workers", "2")
    assert failed.code == 2
    assert "worker 1, 2 of 2: internal error: ZeroDivisionError: planted" in failed.err
    assert f"hint: {STATES} states are left; this is a fault of drsr" in failed.err
    assert "Traceback" not in failed.err


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_remeasured_sample_is_a_new_one_each_time_and_says_which(scripted: Drsr) -> None:
    scripted("label")
    seeds = {scripted("label", "--remeasure", "2", "--json").json["seed"] for _ in range(3)}
    assert len(seeds) == 3
    told = scripted("label", "--remeasure", "2", "--seed", "7")
    assert told.code == 0
    assert told.out.endswith("  the sample of seed 7\n")
    assert "(at most 0.0001 in float32), 0 verdicts changed" in told.out
    assert scripted("label", "--seed", "7").code == 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_measuring_again_what_was_excluded(scripted: Drsr) -> None:
    scripted("label")
    none = scripted("label", "--again", "out_of_memory")
    assert (none.code, none.out) == (0, "nothing to label: every frozen state is measured\n")
    assert "0 states excluded as out_of_memory are measured again" in none.err
    assert "one of them" in scripted("label", "--again", "non_finite", "--remeasure", "2").err


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_remeasuring_keeps_to_the_part(scripted: Drsr) -> None:
    scripted("label")
    found = {
        split: scripted("label", "--remeasure", "100", "--where", f"split={split}", "--json")
        for split in ("train", "validation", "test")
    }
    assert sum(shown.json["states"] for shown in found.values() if shown.code == 0) == STATES
    empty = [shown for shown in found.values() if shown.code]
    assert empty, "so that there is a part without a state"
    assert all("has labelled no state of this part" in shown.err for shown in empty)


@pytest.fixture
def reading(drsr: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drsr:
    """Runs of two splits with four states, frozen for a tiny Llama."""
    build_tiny("llama", tmp_path / "llama")
    monkeypatch.setenv("DRSR_BACKBONE", f"path:{tmp_path / 'llama'}")
    for seed, (steps, split) in enumerate(((5, "train"), (8, "test"))):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps) | {"task": task_in_split(split)})
    drsr("ingest", "runs")
    assert "2 trajectories frozen" in drsr("freeze").out
    return drsr


def test_what_waits_is_featurized_once(reading: Drsr) -> None:
    first = reading("featurize", "--limit", "1")
    assert first.code == 0
    assert "1 states featurized with " in first.out
    rest = reading("featurize", "--json").json
    assert (rest["states"], rest["featurized"], rest["excluded"]) == (3, 3, {})
    assert reading("featurize").out == "nothing to featurize: every frozen state has its features\n"
    assert reading("featurize", "--json").json == {"states": 0}
    (view,) = reading("status", "--json").json["views"]
    assert view.pop("backbone").startswith("path:")
    assert view == {
        "name": "default",
        "version": 1,
        "columns": COLUMNS,
        "stored": 4,
        "excluded": 0,
        "waiting": 0,
        "stale": 0,
        "files": 2,
    }
    assert "feature view" in reading("status").out


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_workers_and_parts(reading: Drsr) -> None:
    assert reading("featurize", "--where", "split=train", "--json").json["states"] == 1
    assert reading("featurize", "--workers", "2", "--json").json["states"] == 3


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_labelling_fills_the_view_and_the_plan_says_so(reading: Drsr) -> None:
    before = reading("plan", "--no-price", "--json").json["featurize"]
    assert (before["states"], before["with_labels"], before["tokens"]) == (4, 4, 0)
    labelled = reading("label", "--where", "split=train")
    assert "features of 1 states were collected in the same walk" in labelled.out
    after = reading("plan", "--no-price").out
    assert "featurize: 3 states, 3 of them while they are labelled" in after
    reading("label")
    assert "featurize: nothing to do" in reading("plan").out
    assert reading("featurize").out.startswith("nothing to featurize")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_plan_prices_what_labelling_will_not_bring(reading: Drsr) -> None:
    reading("label")
    other = reading("plan", "--view", "other")
    assert "label: nothing to do" in other.out
    assert "featurize: 4 states, 0 of them while they are labelled" in other.out
    assert "tokens of 2 trajectories, about " in other.out


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_statistics_per_column(reading: Drsr) -> None:
    reading("featurize")
    shown = reading("featurize", "--statistics")
    assert shown.code == 0
    assert f"feature view default version 1: {COLUMNS} columns" in shown.out
    assert "drift from train" in shown.out
    found = reading("featurize", "--statistics", "--json").json
    assert [split["split"] for split in found["splits"]] == ["train", "test"]
    assert all(len(split["columns"]) == COLUMNS for split in found["splits"])


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--limit", "0"), "--limit must be at least 1"),
            (("--workers", "0"), "--workers must be at least 1"),
            (("--where", "split=dev"), "is not understood"),
            (("--source", "nope"), "no source is called 'nope'"),
            (("--statistics", "--view", "nope"), "no feature view is called 'nope'"),
        ],
    )
    def test_bad_options(self, reading: Drsr, arguments: tuple[str, ...], words: str) -> None:
        refused = reading("featurize", *arguments)
        assert (refused.code, refused.out) == (2, "")
        assert words in refused.err

    def test_a_double_without_layers(self, drsr: Drsr, tmp_path: Path) -> None:
        write_json(tmp_path / "runs" / "a.json", chat(1, steps=8))
        drsr("ingest", "runs")
        refused = drsr("featurize")
        assert refused.code != 0
        assert "the backbone 'scripted' has no layers to read features from" in refused.err
        assert "featurize: refused, the backbone 'scripted' has no layers" in drsr("plan", "--no-price").out

    def test_another_language_model_under_the_same_name(
        self, reading: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reading("featurize")
        build_tiny("llama", tmp_path / "other", seed=1)
        monkeypatch.setenv("DRSR_BACKBONE", f"path:{tmp_path / 'other'}")
        reading("freeze")
        refused = reading("featurize")
        assert refused.code == 2
        assert "read from a language model with backbone_identity" in refused.err
        labelled = reading("label", "--labeler", "other")
        assert labelled.code == 0
        assert "features" not in labelled.out, "labels can be measured with any model, the view is one model's"
        assert reading("featurize", "--view", "other", "--json").json["states"] == 4
