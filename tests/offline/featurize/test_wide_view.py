"""The further views through the whole pipeline: exported, imported, joined, trained on, published, decided with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from drsr.backbone import catalogue
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.cli import main
from drsr.decide.candidates import DecisionState, freeze
from drsr.expectations.judging import judge
from drsr.features.geometry import geometry_of
from drsr.features.vectors import candidate_features
from drsr.features.view_layouts import Kind, scored_layout
from drsr.offline.audit.checks.future import audit_future
from drsr.offline.audit.release import gated_order
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze as freeze_stage
from drsr.offline.label.exports import import_measured
from drsr.offline.label.worker import WorkOrder, work
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import place_of, read_parts
from drsr.policy.loading import load_policy
from drsr.request.request import read_request
from drsr.request.view import caps_for
from drsr.settings import load_settings
from tests.features.states import run_messages
from tests.offline.small_pipeline import Pipeline, add_runs, fit, publish_quickly, quick_params
from tests.offline.without_texts import imported_from


@pytest.fixture
def model(pipeline: Pipeline) -> FrozenLM:
    loaded = load_backbone(pipeline.backbone)
    assert isinstance(loaded, FrozenLM)
    return loaded


@pytest.fixture
def exported(pipeline: Pipeline, model: FrozenLM, tmp_path: Path) -> Path:
    """Labels and all views of the pipeline, in a folder."""
    for view in ("window", "semantic"):
        run = featurize_run(model, "float32", caps_for(model.window), view=view)
        materialize(pipeline.catalog, pipeline.artifacts, model, run)
    exporter = Exporter(pipeline.catalog, pipeline.artifacts, quick_params(), tmp_path / "out")
    for stage in ("label", "featurize"):
        exporter.export(stage)
        assert exporter.export(stage).added.part is None, "again: nothing new"  # type: ignore[union-attr]
    return tmp_path / "out"


def matrices(pipeline: Pipeline, view: str) -> dict[str, np.ndarray]:
    with pipeline.catalog.reading() as connection:
        found = get_view(connection, view)
        states = stored_states(connection, found)
    reader = FeatureReader(pipeline.artifacts, found)
    return {state.state_key: reader.matrix(state) for state in states}


def another(pipeline: Pipeline, model: FrozenLM, folder: Path) -> Pipeline:
    """A catalog that froze the same runs and measured nothing."""
    folder.mkdir()
    catalog = open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True)
    artifacts = ArtifactStore(str(folder / "artifacts"))
    add_runs(catalog, artifacts, folder)
    freeze_stage(catalog, artifacts, model.tokenizer, caps_for(model.window))
    return pipeline._replace(folder=folder, catalog=catalog, artifacts=artifacts)


def test_exported_joined_without_a_language_model_published_and_decided_with(
    pipeline: Pipeline, model: FrozenLM, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another(pipeline, model, tmp_path / "other")
    settings = load_settings(environment=other.settings)
    found = import_measured(other.catalog, other.artifacts, settings, exported)
    states = found.features.taken
    assert {name: imported.taken for name, imported in found.further.items()}["window"] == states
    semantic = len(matrices(other, "semantic"))
    assert 0 < semantic < states, "of validation and test alone"
    for view in ("default", "window", "semantic"):
        there = matrices(pipeline, view)
        assert all(np.array_equal(matrix, there[key]) for key, matrix in matrices(other, view).items())

    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("a language model was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "load_backbone", loaded)
        summary = work(WorkOrder("featurize", settings, "wide", Selection(), None), lambda so_far: None)
    assert summary["featurized"] == states
    parts = [matrices(other, view) for view in ("default", "window")]
    for key, matrix in matrices(other, "wide").items():
        assert np.array_equal(matrix, np.concatenate([part[key] for part in parts], axis=1))
    audit = audit_future(other.catalog, other.artifacts, model, view="wide", sample=2)
    assert audit.passed
    assert audit.states == 2

    fitted = fit(other.catalog, other.artifacts, other.folder, quick_params(), "wide")
    published = publish_quickly(other._replace(calibration=fitted), gated_order(tmp_path / "index", version="1.0"))
    policy = load_policy(str(published.wheel))
    assert policy.numbers.layout_hash == scored_layout(Kind.WIDE, geometry_of(model)).hash
    decision = policy.prune(run_messages(9))
    assert decision.error is None
    assert decision.outcome is not None
    state = freeze(read_request(run_messages(9)), model.tokenizer, policy.numbers.view_cap)
    assert isinstance(state, DecisionState)
    here = policy.frozen.representation.features(state)
    assert np.array_equal(here.matrix, candidate_features(model, state, kind=Kind.WIDE).matrix)
    other.catalog.close()


def test_without_the_texts_of_the_runs_the_command_joins_all_the_same(
    pipeline: Pipeline,
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare, found = imported_from(pipeline, tmp_path / "bare")
    for name, value in bare.settings.items():
        monkeypatch.setenv(name, value)
    assert main(["featurize", "--view", "wide", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["featurized"] == found.features.taken == len(matrices(bare, "wide"))
    assert main(["featurize", "--view", "wide", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["featurized"] == 0
    bare.catalog.close()


def test_the_rules_judge_the_further_views_too(pipeline: Pipeline, exported: Path) -> None:
    verdicts = judge(pipeline.catalog, pipeline.artifacts, ["features"])
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.passed and "window" in str(verdict)] == []
    parts = list(read_parts(place_of(exported, "featurize") / "window"))
    assert [part.about["columns"] for part in parts] == [len(next(iter(matrices(pipeline, "window").values()))[0])]
