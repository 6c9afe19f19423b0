"""`drsr train` in text and JSON."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drsr.offline.store import progress
from tests.offline.commands.conftest import Drsr
from tests.offline.commands.stored_catalog import fill_catalog, quick_params_file

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def filled(drsr: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drsr:
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)  # a slow machine would say how far it is
    quick_params_file(tmp_path)
    fill_catalog()
    return drsr


def test_a_person_sees_members_and_ensemble_and_a_second_time_nothing_is_done(filled: Drsr, tmp_path: Path) -> None:
    first = filled("train")
    assert (first.code, first.err) == (0, "")
    assert "full: trained in" in first.out
    assert "of 16 trajectories; epochs chosen by" in first.out
    for seed in ("11", "29", "47"):
        assert any(line.split()[:1] == [seed] for line in first.out.splitlines())
    assert "unsafe AUROC" in first.out
    again = filled("train")
    assert "full: nothing to train: already trained from these inputs" in again.out
    assert first.out.split("\n")[1:] == again.out.split("\n")[1:]
    assert list((tmp_path / "cache" / "training").iterdir()) == []


def test_json_and_ablations(filled: Drsr) -> None:
    (full,) = filled("train", "--json").json
    assert (full["ablation"], full["is_new"], full["seeds"]) == ("full", True, [11, 29, 47])
    text = filled("train", "--ablation", "no-abstention", "attention-only", "--ablation", "no-pair-pooling").out
    assert "full: nothing to train" in text
    assert "attention-only: trained in" in text
    assert "no-abstention: trained as full, differs in selection only" in text
    records = filled("train", "--ablation", "attention-only", "no-pair-pooling", "--json").json
    assert [(record["ablation"], record["is_new"]) for record in records] == [
        ("attention-only", False),
        ("no-pair-pooling", False),
    ]
    shown = filled("status")
    assert shown.code == 0
    assert "attention-only" in shown.out
    assert [record["ablation"] for record in filled("status", "--json").json["scorers"]] == [
        "no-pair-pooling",
        "attention-only",
        "full",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ablation", "nothing"), "use one of full, no-retained-context"),
        (("--workers", "0"), "--workers must be at least 1"),
        (("--labeler", "other"), "no labeler is called 'other'"),
        (("--view", "other"), "no feature view is called 'other'"),
    ],
)
def test_bad_usage(filled: Drsr, arguments: tuple[str, ...], words: str) -> None:
    outcome = filled("train", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert filled("status", "--json").json["scorers"] == []


def test_parameters_that_are_wrong_are_told_before_anything_is_fitted(filled: Drsr, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(path.read_text().replace("patience: 12", "patience: 0"))
    outcome = filled("train")
    assert outcome.code == 2
    assert "patience must be above 0" in outcome.err


def test_a_process_killed_in_the_middle_goes_on_where_it_was(filled: Drsr, tmp_path: Path) -> None:
    quick_params_file(tmp_path, epochs=150)
    process = subprocess.Popen([sys.executable, "-m", "drsr", "train"], stderr=subprocess.PIPE)
    folder = tmp_path / "cache" / "training"
    deadline = time.monotonic() + 120
    while not list(folder.glob("[!.]*.safetensors")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    shown = filled("status", "--json").json
    assert shown["scorers"] == []
    assert [(run["stage"], run["finished_at"]) for run in shown["runs"]] == [("train", None)]
    (resumed,) = filled("train", "--json").json
    (checkpoints, weights) = (list(folder.iterdir()), resumed["weights"])
    assert checkpoints == []
    # The same inputs in a catalog of their own, without a kill.
    (whole,) = _in_another_catalog(filled, tmp_path)
    assert (whole["is_new"], whole["weights"], whole["history"]) == (True, weights, resumed["history"])


def _in_another_catalog(drsr: Drsr, tmp_path: Path) -> list[dict[str, object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path}/another.sqlite")
        patch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / "others"))
        fill_catalog()
        found: list[dict[str, object]] = drsr("train", "--json").json
    return found


def test_another_kind_of_scorer_and_its_learning_curve(filled: Drsr) -> None:
    first = filled("train", "--scorer", "linear")
    assert (first.code, first.err) == (0, "")
    assert "linear, fitted on" in first.out
    assert "judged by" in first.out
    curve = filled("train", "--scorer", "linear", "--learning-curve", "5", "--json").json
    assert [point["tasks"] for point in curve] == [5, 21]
    shown = filled("train", "--scorer", "linear", "--learning-curve", "5")
    assert "pairs in a state" in shown.out
    refused = filled("train", "--scorer", "oracle")
    assert refused.code == 2
    assert "train.scorer must be one of network, linear, trees, stack" in refused.err
    assert "at least 2 tasks" in filled("train", "--learning-curve", "1").err


def test_kinds_of_scorer_by_nested_folds(filled: Drsr) -> None:
    shown = filled("train", "--cross-fitted", "--choose-kind", "linear")
    assert shown.code == 0
    assert "thresholds from other folds" in shown.out
    assert "chosen in each fold" in shown.out
    found = filled("train", "--cross-fitted", "--choose-kind", "linear", "--json").json
    assert [row["name"] for row in found["kinds"]] == ["linear", "chosen in each fold"]
    assert "'oracle' is not a kind of scorer" in filled("train", "--choose-kind", "oracle").err
