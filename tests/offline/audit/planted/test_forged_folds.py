"""Forged around cross-fitting and weights by source: what a threshold is chosen by besides the shipped weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from drsr.offline.audit.checks import calibration, future, judged_scorer, labels, normaliser
from drsr.offline.audit.running import RETRAIN, run_audit
from drsr.offline.params import Params
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.train import fitting, stage
from drsr.offline.train.learners import fit as learners
from drsr.offline.train.learners.fit import FittedScorer, fit_scorer
from drsr.scorer.ensemble import fit_normaliser
from tests.offline.audit.published import ask, by_hand, failures
from tests.offline.small_pipeline import Pipeline, fit, quick_params

UNSAFE = 0.02


def cross_fitted(pipeline: Pipeline, scorer: str = "linear", **calibrate: Any) -> Pipeline:
    """The same, its scorer fitted on both splits in three folds, and calibrated by the folds."""
    found: Params = quick_params(**calibrate)
    numbers = replace(found, train=replace(found.train, scorer=scorer, folds=3))
    return pipeline._replace(calibration=fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers))


def judged(pipeline: Pipeline, *checks: Any) -> dict[str, str]:
    return failures(run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order(sample=0)), checks))


@pytest.fixture
def stopped_by_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks stop by every second task: a fifth of so few runs would be one."""
    monkeypatch.setattr(learners, "STOPPING_PART", 2)


@pytest.mark.usefixtures("stopped_by_half")
@pytest.mark.parametrize("scorer", ["linear", "network"])
def test_an_honest_pipeline(pipeline: Pipeline, scorer: str) -> None:
    honest = cross_fitted(pipeline, scorer)
    checks = (judged_scorer.CHECK, calibration.CHECK, labels.CHECK, future.CHECK, normaliser.CHECK, RETRAIN)
    assert judged(honest, *checks) == {}


@pytest.mark.usefixtures("stopped_by_half")
def test_a_normaliser_that_saw_what_the_network_was_stopped_by(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seeing_all(features: Any, used: Any) -> Any:
        return fit_normaliser(np.concatenate([features, features[:3] + 1]), used)

    with monkeypatch.context() as forging:
        forging.setattr(fitting, "fit_normaliser", seeing_all)
        forged = cross_fitted(pipeline, "network")
    caught = judged(forged, normaliser.CHECK)["normaliser refitted"]
    assert caught.startswith("column structural_")


def test_scores_of_fold_members_that_know_the_labels(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written down with metrics and a threshold that fit them: the shipped weights are the honest ones."""

    def knowing(train: Any, validation: Any, *arguments: Any, **options: Any) -> FittedScorer:
        fitted = fit_scorer(train, validation, *arguments, **options)
        assert fitted.fold_scores is not None
        unsafe = np.concatenate([train.unsafe, validation.unsafe])
        forged = np.where(unsafe, 0.9, 0.1) + 0.01 * fitted.fold_scores.unsafe
        return fitted._replace(fold_scores=fitted.fold_scores._replace(unsafe=forged))

    monkeypatch.setattr(stage, "fit_scorer", knowing)
    forged = cross_fitted(pipeline)
    assert judged(forged, calibration.CHECK) == {}
    caught = judged(forged, RETRAIN)["scorer trained again"]
    assert "the kept fold scores differ by up to " in caught


@pytest.fixture
def two_sources(pipeline: Pipeline) -> Pipeline:
    """One run of validation is of a source of its own, and sources count alike."""
    by_hand(pipeline, "INSERT INTO source (name) VALUES ('small')")
    by_hand(
        pipeline,
        "UPDATE trajectory SET source_id = (SELECT max(id) FROM source) "
        "WHERE id = (SELECT max(id) FROM trajectory WHERE split = 'validation')",
    )
    numbers = quick_params(source_balance=1.0)
    return pipeline._replace(calibration=fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers))


def test_verdicts_moved_within_the_tolerance_in_a_small_source(two_sources: Pipeline) -> None:
    """The limit holds over all states alike, and not where sources are weighted towards each other."""
    subject = Subject(two_sources.catalog, two_sources.artifacts, Order())
    selected = labels.deciding_sets(subject, neighbours=0)
    small = {
        key
        for (key,) in ask(
            two_sources,
            "SELECT s.state_key FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
            "JOIN source o ON o.id = t.source_id WHERE o.name = 'small'",
        )
    }
    moved = {(key, mask): UNSAFE - 5e-5 if key in small else 0.0 for key, mask in selected.items()}
    share = sum(key in small for key in selected) / len(selected)
    assert 0 < share < 0.4
    changed = "UPDATE calibration_run SET params = json_set(params, '$.max_unsafe_rate', ?) WHERE id = ?"
    by_hand(two_sources, changed, share + 0.02, two_sources.calibration.id)
    subject = Subject(two_sources.catalog, two_sources.artifacts, Order())
    near, broken = labels.near_the_tolerance(subject, UNSAFE, 1e-4, moved)
    assert len(near) == sum(key in small for key in selected)
    assert "too near to the tolerance to tell" in broken
    assert ", with sources weighted; the limit is " in broken
