"""`drsr evaluate`: the tables, the JSON, and what is read for it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from sqlalchemy import select

from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.evaluate.stage import latest_evaluation
from drsr.offline.store import progress
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS
from tests.offline.commands.conftest import Drsr
from tests.offline.commands.stored_catalog import fill_catalog, quick_params_file
from tests.offline.stored_frames import SIZES

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
QUICK = ("evaluate", "--ablations", "--replicates", "50")


@pytest.fixture
def filled(drsr: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drsr:
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)  # a slow machine would say how far it is
    quick_params_file(tmp_path, epochs=5)
    return drsr


def test_everything_is_in_the_tables(filled: Drsr) -> None:
    fill_catalog()
    outcome = filled(*QUICK)
    assert (outcome.code, outcome.err) == (0, "")
    assert "24 states of 12 trajectories" in outcome.out
    assert "say little" not in outcome.out
    for name in ABLATIONS:
        assert f"\n  {name} " in outcome.out
    for words in (
        "the scorer itself",
        "measured",
        "predicted",
        "mismatched when judged",
        "both exchanged",
        "no gate",
        "left out",
    ):
        assert (words in outcome.out) == (words != "left out")
    found = filled(*QUICK, "--json").json
    assert (found["split"], found["states"], found["missing"]) == ("test", 24, [])
    assert [row["name"] for row in found["scorers"]] == [name for name in ABLATIONS if name != "no-abstention"]
    assert [row["name"] for row in found["policies"]] == list(ABLATIONS)
    assert len(found["singletons"]) == 9
    assert len(found["matching"]) == 3
    assert set(found["training_runs"]) == {row["name"] for row in found["scorers"]}
    for row in found["scorers"]:
        assert [metric["name"] for metric in row["metrics"]][-2:] == ["unsafe AUROC", "Brier score"]
        assert all(metric["grouping"] and metric["tie_rule"] for metric in row["metrics"])
    # What was trained for the first is not trained again for the second.
    stages = [run["stage"] for run in filled("status", "--json").json["runs"]]
    assert sorted(stages) == ["evaluate", "evaluate", "train"]
    with open_catalog(os.environ["DRSR_CATALOG_URL"]) as catalog, catalog.reading() as connection:
        reads = {tuple(row) for row in connection.execute(select(SplitRead.split, SplitRead.purpose))}
    assert reads == {("train", "train"), ("validation", "train"), ("validation", "calibrate"), ("test", "evaluate")}


def test_what_the_examples_do_not_allow_is_left_out_with_the_reason(filled: Drsr) -> None:
    fill_catalog(sizes={**SIZES, "validation": 2, "test": 9})
    outcome = filled(*QUICK)
    assert outcome.code == 0
    assert "left out: mismatched-state: states with" in outcome.out
    assert "of so few trajectories they say little" in outcome.out
    assert "both exchanged" not in outcome.out


def test_on_validation(filled: Drsr) -> None:
    fill_catalog()
    assert filled(*QUICK, "--split", "validation", "--json").json["states"] == 20


def test_the_scorer_alone(filled: Drsr) -> None:
    fill_catalog()
    found = filled("evaluate", "--replicates", "50", "--json").json
    assert [row["name"] for row in found["scorers"]] == ["full"]
    assert set(found["training_runs"]) == {"full"}
    assert [row["name"] for row in found["policies"]] == ["full", "no-abstention"]
    with open_catalog(os.environ["DRSR_CATALOG_URL"]) as catalog:
        kept = latest_evaluation(catalog, ArtifactStore(os.environ["DRSR_ARTIFACT_ROOT"]))
    assert kept is not None
    assert json.loads(kept) == found


def test_bad_usage(filled: Drsr) -> None:
    outcome = filled("evaluate", "--ablations", "--replicates", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--replicates must be at least 1" in outcome.err
