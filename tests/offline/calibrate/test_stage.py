"""The calibrate stage on a catalog: what it records, that it repeats nothing, and which scorer it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from drsr.errors import ScorerNotTrained
from drsr.offline.calibrate import search as calibration
from drsr.offline.calibrate.certificates import BOUND
from drsr.offline.calibrate.files import read_search_table
from drsr.offline.calibrate.stage import calibrate, frozen_rule
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.label_tables import Label
from drsr.offline.catalog.scorer_tables import CalibrationRun
from drsr.offline.catalog.tables import Execution
from drsr.offline.params import Params
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.records import get_training_run, latest_calibrations
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import TrainingInputs, load_fold_scores, load_trained, read_inputs, train
from tests.offline.stored_frames import fill, quick_params

PARAMS = quick_params(max_epochs=30)


@pytest.fixture
def inputs(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> TrainingInputs:
    """Of a scorer that is trained."""
    fill(catalog, artifacts, noise=0.0)
    found = read_inputs(catalog, artifacts, "default", "default", "calibrate")
    train(catalog, artifacts, found, PARAMS.train, checkpoints=tmp_path / "checkpoints")
    return found


def rows(catalog: Catalog, table: Any) -> list[Any]:
    with catalog.reading() as connection:
        return list(connection.execute(select(table).order_by(table.id)).mappings())


def test_the_operating_point_is_recorded(catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs) -> None:
    record, run, is_new = calibrate(catalog, artifacts, inputs, PARAMS)
    assert is_new
    scored = score_frame(load_trained(artifacts, run), inputs.validation)
    direct = calibration.calibrate(scored, PARAMS.calibrate)
    assert direct.chosen is not None
    (row,) = rows(catalog, CalibrationRun)
    assert (row["mode"], row["abstains_always"], row["training_run_id"]) == ("plain", False, run.id)
    numbers = [row[name] for name in direct.chosen._fields]
    assert numbers == list(direct.chosen)  # tau to the last bit, on both databases
    assert (row["states"], row["tried"], row["incomplete_states"]) == (20, len(direct.table), 0)
    assert (row["validation_hash"], row["train_hash"]) == (inputs.validation_hash, None)
    assert row["explanation"] == direct.explanation
    assert (row["unsafe_bound"], row["confidence"], row["bound"]) == (None, None, None)
    kept = read_search_table(artifacts.get(row["search_table"]))
    assert kept.risk_threshold.tolist() == direct.table.risk_threshold.tolist()
    assert frozen_rule(record) == direct.rule(PARAMS.calibrate)
    with catalog.reading() as connection:
        assert latest_calibrations(connection, 5) == [record]
        assert latest_calibrations(connection, 5, "certified") == []
        assert get_training_run(connection, record.training_run_id) == run


def test_the_same_inputs_are_not_calibrated_twice(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs
) -> None:
    first = calibrate(catalog, artifacts, inputs, PARAMS)
    again = calibrate(catalog, artifacts, read_inputs(catalog, artifacts, "default", "default", "calibrate"), PARAMS)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.record == again.record
    assert [row["stage"] for row in rows(catalog, Execution)] == ["train", "calibrate"]
    assert {(row["split"], row["purpose"]) for row in rows(catalog, SplitRead)} == {
        ("train", "calibrate"),
        ("validation", "calibrate"),
    }
    other = replace(PARAMS, calibrate=replace(PARAMS.calibrate, removal_cap=0.1))
    assert calibrate(catalog, artifacts, inputs, other).is_new
    assert len(rows(catalog, CalibrationRun)) == 2


def test_a_lost_search_table_is_made_again(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    record = calibrate(catalog, artifacts, inputs, PARAMS).record
    path = tmp_path / "artifacts" / record.search_table[:2] / record.search_table
    path.unlink()
    assert calibrate(catalog, artifacts, inputs, PARAMS).record == record
    assert path.exists()
    assert len(rows(catalog, CalibrationRun)) == 1


def test_nothing_admissible_is_a_policy_that_abstains_always(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs
) -> None:
    strict = replace(PARAMS, calibrate=replace(PARAMS.calibrate, max_mean_harm=-10.0))
    record = calibrate(catalog, artifacts, inputs, strict).record
    assert record.abstains_always
    assert "THE POLICY ABSTAINS ALWAYS" in record.explanation
    assert (record.risk_threshold, record.selected, record.mean_removal, record.admissible) == (None, 0, 0.0, 0)
    assert frozen_rule(record).risk_threshold == -math.inf
    assert len(read_search_table(artifacts.get(record.search_table))) == record.tried > 0
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        connection.execute(update(CalibrationRun).values(risk_threshold=0.5))


def certifiable() -> Params:
    """A limit that so few trajectories can show."""
    loose = replace(PARAMS.calibrate.certified, max_unsafe_rate=0.9, confidence=0.6, starts=1)
    return replace(PARAMS, calibrate=replace(PARAMS.calibrate, max_unsafe_rate=0.9, certified=loose))


def test_certified(catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs) -> None:
    record = calibrate(catalog, artifacts, inputs, certifiable(), certified=True).record
    assert (record.mode, record.confidence, record.bound) == ("certified", 0.6, BOUND)
    assert record.train_hash == inputs.train_hash
    assert not record.abstains_always
    assert record.unsafe_rate is not None
    assert record.unsafe_bound is not None
    assert record.unsafe_rate < record.unsafe_bound <= 0.9
    assert 0 < record.admissible <= record.tried == 9
    header = artifacts.get(record.search_table).decode().splitlines()[0]
    assert header.endswith("admissible,unsafe_bound,certified")
    # A plain one of the same scorer stands beside it.
    assert calibrate(catalog, artifacts, inputs, certifiable()).is_new
    assert [row["mode"] for row in rows(catalog, CalibrationRun)] == ["certified", "plain"]


def test_ten_trajectories_certify_nothing_at_the_real_level(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs
) -> None:
    record = calibrate(catalog, artifacts, inputs, PARAMS, certified=True).record
    assert record.abstains_always
    assert "could be certified" in record.explanation
    assert record.confidence == 0.95


def test_a_scorer_of_other_labels_is_not_calibrated(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs
) -> None:
    other = replace(PARAMS, train=replace(PARAMS.train, learning_rate=1e-3))
    with pytest.raises(ScorerNotTrained, match="run drsr train first"):
        calibrate(catalog, artifacts, inputs, other)
    with catalog.writing() as connection:
        connection.execute(update(Label).where(Label.harm < 0).values(harm=Label.harm - 1e-9))
    newer = read_inputs(catalog, artifacts, "default", "default", "calibrate")
    with pytest.raises(ScorerNotTrained, match="present labels, features and parameters"):
        calibrate(catalog, artifacts, newer, PARAMS)
    assert rows(catalog, CalibrationRun) == []
    assert [row["stage"] for row in rows(catalog, Execution)] == ["train"]


CROSS_FITTED = quick_params(scorer="linear", folds=3)


def test_a_cross_fitted_scorer_is_calibrated_on_both_splits_by_its_folds(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    with pytest.raises(ScorerNotTrained):
        calibrate(catalog, artifacts, inputs, CROSS_FITTED)
    ((run, _),) = train(catalog, artifacts, inputs, CROSS_FITTED.train, checkpoints=tmp_path)
    record, found, is_new = calibrate(catalog, artifacts, inputs, CROSS_FITTED)
    assert is_new
    assert found == run
    folds = load_fold_scores(artifacts, run, inputs.train, inputs.validation)
    assert folds is not None
    assert len(folds.frame) == len(inputs.train) + len(inputs.validation)
    direct = calibration.calibrate_cross_fitted(folds, CROSS_FITTED.calibrate)
    assert direct.chosen is not None
    assert record.risk_threshold == direct.chosen.risk_threshold
    assert record.states == len(folds.frame.state_ids) == 52
    assert (record.train_hash, record.validation_hash) == (inputs.train_hash, inputs.validation_hash)
    assert not calibrate(catalog, artifacts, inputs, CROSS_FITTED).is_new
    # With other folds the final members are the same, and what they are calibrated by is not.
    other = replace(CROSS_FITTED, train=replace(CROSS_FITTED.train, folds=4))
    ((second, _),) = train(catalog, artifacts, inputs, other.train, checkpoints=tmp_path)
    assert second.weights == run.weights
    assert second.fold_scores != run.fold_scores
    assert calibrate(catalog, artifacts, inputs, other).record.calibration_key != record.calibration_key
    certified = calibrate(catalog, artifacts, inputs, CROSS_FITTED, certified=True).record
    assert (certified.mode, certified.confidence) == ("certified", 0.95)
