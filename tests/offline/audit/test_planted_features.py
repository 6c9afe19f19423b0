"""Features that know too much, planted in a published policy: the check that computes them again sees each.

The forger trains, calibrates and publishes again, so every hash is in order.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from drsr.offline.audit.checks import future
from drsr.offline.featurize.files import FeatureBlock, read_file, write_file
from drsr.offline.featurize.views import get_view
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.train.stage import read_inputs
from drsr.scorer.ensemble import Normaliser, fit_normaliser
from tests.offline.audit.published import (
    PublishedPipeline,
    ask,
    asked,
    audited,
    by_hand,
    failures,
    go_on,
    trained_again,
)
from tests.offline.small_pipeline import Pipeline, fit, quick_params


def test_a_future_token_in_a_feature(release: PublishedPipeline, tmp_path: Path) -> None:
    """One column of one state says how long the output will be. Everything is trained on it, and every hash fits."""
    key, _ = _plant_future_token(release.pipeline)
    forged = trained_again(release.pipeline, tmp_path / "forged")
    caught = failures(audited(forged, [future.CHECK], sample=None))
    assert caught == {"no future in a feature": f"state {key}"}
    assert failures(audited(forged)) == {}


def test_a_future_token_in_a_feature_of_a_run_that_has_gone_on(release: PublishedPipeline, tmp_path: Path) -> None:
    """The state is superseded, and nothing new will be trained on it. The policy that was published, is."""
    pipeline = release.pipeline
    key, name = _plant_future_token(pipeline)
    forged = trained_again(pipeline, tmp_path / "forged")
    go_on(pipeline, pipeline.folder / "runs" / name.partition("#")[0])
    versions = "SELECT superseded_by FROM trajectory WHERE external_id = ? ORDER BY version"
    assert ask(pipeline, versions, name) == [(2,), (None,)]
    audit = audited(forged, [future.CHECK], sample=None)
    assert failures(audit) == {"no future in a feature": f"state {key}"}
    ((states,),) = ask(pipeline, "SELECT states FROM policy_release ORDER BY id DESC LIMIT 1")
    everything = len(orjson.loads(pipeline.artifacts.get(states)))
    assert audit.verdicts[0].evidence["states"] == audit.verdicts[0].evidence["of"] == everything


def test_a_future_token_in_a_training_state_that_decides_the_threshold(pipeline: Pipeline) -> None:
    """Cross-fitted, every state of train is behind the threshold: each is computed again, though none is drawn."""
    key, _ = _plant_future_token(pipeline)
    numbers = quick_params()
    numbers = replace(numbers, train=replace(numbers.train, scorer="linear", folds=3))
    fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers)
    assert asked(pipeline, future.CHECK) == {"no future in a feature": f"state {key}"}


def test_features_of_a_policys_state_that_are_gone(release: PublishedPipeline) -> None:
    by_hand(release.pipeline, "DELETE FROM state_features WHERE state_id = ?", _of_train(release.pipeline)[0])
    caught = failures(audited(release, [future.CHECK]))
    assert "1 of the " in caught["no future in a feature"]
    assert "states that the policy was made from have no stored features" in caught["no future in a feature"]


def _of_train(pipeline: Pipeline) -> tuple[Any, ...]:
    """Row, key, decision and file of a state of the training split, and its run's bytes and name."""
    return ask(
        pipeline,
        "SELECT s.id, s.state_key, s.decision_index, f.blob, t.blob, t.external_id FROM decision_state s "
        "JOIN trajectory t ON t.id = s.trajectory_id JOIN state_features sf ON sf.state_id = s.id "
        "JOIN feature_file f ON f.id = sf.file_id WHERE t.split = 'train' ORDER BY s.state_key",
    )[0]


def _plant_future_token(pipeline: Pipeline) -> tuple[str, str]:
    """In one column of one state; returns its key and the name of its run."""
    _, key, decision, blob, trajectory, name = _of_train(pipeline)
    run = Trajectory.from_json(pipeline.artifacts.get(trajectory))
    ahead = len(run.request["messages"][decision]["content"])
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    rows = read_file(pipeline.artifacts, view, blob)
    blocks = []
    for state in dict.fromkeys(rows.state_keys):
        mine = [number for number, found in enumerate(rows.state_keys) if found == state]
        matrix = rows.matrix[mine]
        if state == key:
            matrix[:, 3] += np.float32(1e-3 * ahead)
        blocks.append(FeatureBlock(state, rows.prefix_hashes[mine[0]], view.identity.layout_hash, matrix))
    leaking = write_file(pipeline.artifacts, view, blocks)
    by_hand(pipeline, "UPDATE feature_file SET blob = ? WHERE blob = ?", leaking, blob)
    return key, name


def test_a_normaliser_that_saw_the_validation_split(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained with means and scales of both splits. The hashes are those of what was trained."""
    pipeline = release.pipeline
    by_hand(pipeline, "DELETE FROM policy_release")
    by_hand(pipeline, "DELETE FROM calibration_run")
    by_hand(pipeline, "DELETE FROM training_run")
    other = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "train").validation

    def leaking(candidates: np.ndarray, used: np.ndarray | None = None) -> Normaliser:
        return fit_normaliser(np.concatenate([candidates, other.features[other.present]]), used)

    monkeypatch.setattr("drsr.offline.train.fitting.fit_normaliser", leaking)
    audit = audited(trained_again(pipeline, tmp_path / "forged"))
    caught = failures(audit)
    assert list(caught) == ["normaliser refitted"]
    assert "column " in caught["normaliser refitted"]
    assert "fits the training and validation splits together" in audit.failures[0].detail
