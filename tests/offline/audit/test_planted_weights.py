"""Weights that were fitted on test labels, under the key, the hashes and the normaliser of an honest training run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from drsr.offline.audit.checks import retrained_scorer
from drsr.offline.audit.running import RETRAIN, run_audit
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.train.learners.fit import fit_scorer
from drsr.offline.train.metrics import Bootstrap, auroc, brier, evaluate
from drsr.offline.train.records import TrainingRecord, get_training_run
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import load_trained, read_inputs
from drsr.scorer.ensemble import Ensemble
from drsr.scorer.weights import scorer_bytes
from tests.offline import small_pipeline
from tests.offline.audit.published import (
    WITHOUT_MODEL,
    PublishedPipeline,
    ask,
    audited,
    by_hand,
    failures,
    trained_again,
)
from tests.offline.small_pipeline import Pipeline, fit, quick_params


def test_weights_that_were_fitted_on_test_labels(release: PublishedPipeline, tmp_path: Path) -> None:
    """Calibrated and published with them, every key and hash is in order. What they do on validation is not."""
    pipeline = release.pipeline
    _plant(pipeline, _fitted_with_test_labels(pipeline, tmp_path / "elsewhere"))
    forged = trained_again(pipeline, tmp_path / "forged")
    caught = failures(audited(forged, [*WITHOUT_MODEL, RETRAIN]))
    assert caught.keys() == {"scorer judged again", "scorer trained again"}
    assert "Brier score of the ensemble (all sets) is 0." in caught["scorer judged again"]
    assert "the Brier score of member 29 is 0." in caught["scorer judged again"]
    assert "the shipped weights are others" in caught["scorer trained again"]


def test_weights_whose_forger_wrote_down_what_they_do(release: PublishedPipeline, tmp_path: Path) -> None:
    """Only who trains again can tell."""
    pipeline = release.pipeline
    scorer = _fitted_with_test_labels(pipeline, tmp_path / "elsewhere")
    _plant(pipeline, scorer)
    metrics, history = _what_it_does(pipeline, scorer)
    changed = (orjson.dumps(metrics).decode(), pipeline.artifacts.put(orjson.dumps(history)))
    by_hand(pipeline, "UPDATE training_run SET metrics = ?, history = ?, chosen_epochs = '[5, 5]'", *changed)
    forged = trained_again(pipeline, tmp_path / "forged")
    assert failures(audited(forged)) == {}
    assert list(failures(audited(forged, [RETRAIN]))) == ["scorer trained again"]


def test_an_honest_scorer_comes_out_the_same_to_the_bit(release: PublishedPipeline) -> None:
    """And is trained again only where that was asked for."""
    pipeline = release.pipeline
    order = Order(policy=str(release.wheel), sample=1, retrain=True)
    done: list[tuple[int, int]] = []
    subject = Subject(pipeline.catalog, pipeline.artifacts, order)
    audit = run_audit(subject, [RETRAIN], lambda check, now, total: done.append((now, total)))
    assert "every weight is the shipped one, to the bit" in audit.verdicts[0].detail
    assert audit.passed
    assert done[-1] == (small_pipeline.EPOCHS, small_pipeline.EPOCHS)


@pytest.mark.parametrize(("allowed", "is_caught"), [(1e-3, False), (1e-9, True)])
def test_other_bits_are_compared_by_what_they_score(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, allowed: float, is_caught: bool
) -> None:
    """As on another kind of processor: weights a rounding error away."""

    def rounded(*frames: Any, **options: Any) -> Any:
        trained = fit_scorer(*frames, **options)
        assert isinstance(trained.scorer, Ensemble)
        weights = {name: values * (1 + 1e-6) for name, values in trained.scorer.parameters.items()}
        return trained._replace(scorer=replace(trained.scorer, parameters=weights))

    monkeypatch.setattr(retrained_scorer, "fit_scorer", rounded)
    monkeypatch.setattr(retrained_scorer, "SCORES", allowed)
    audit = audited(release, [RETRAIN])
    assert audit.passed is not is_caught
    assert audit.verdicts[0].evidence["same_bits"] is False
    assert 1e-9 < audit.verdicts[0].evidence["largest"] < 1e-3


def _fitted_with_test_labels(pipeline: Pipeline, folder: Path) -> Ensemble:
    """Trained in a copy in which the test run is one of train; with the normaliser and the scale of the honest run."""
    copied = small_pipeline.copy_of(pipeline, folder)
    for table in ("split_group", "trajectory"):
        by_hand(copied, f"UPDATE {table} SET split = 'train' WHERE split = 'test'")
    fit(copied.catalog, copied.artifacts, folder, quick_params())
    leaking = load_trained(copied.artifacts, _latest_run(copied))
    copied.catalog.close()
    honest = load_trained(pipeline.artifacts, _latest_run(pipeline))
    assert isinstance(honest, Ensemble)
    assert isinstance(leaking, Ensemble)
    return replace(honest, parameters=leaking.parameters)


def _latest_run(pipeline: Pipeline) -> TrainingRecord:
    ((number,),) = ask(pipeline, "SELECT max(id) FROM training_run")
    with pipeline.catalog.reading() as connection:
        return get_training_run(connection, number)


def _plant(pipeline: Pipeline, scorer: Ensemble) -> None:
    by_hand(pipeline, "DELETE FROM policy_release")
    by_hand(pipeline, "DELETE FROM calibration_run")
    by_hand(pipeline, "UPDATE training_run SET weights = ?", pipeline.artifacts.put(scorer_bytes(scorer)))


def _what_it_does(pipeline: Pipeline, scorer: Ensemble) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Metrics and history as training would have written them."""
    frame = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "train").validation
    scored = score_frame(scorer, frame)
    gap = quick_params().train.meaningful_gap
    ensemble = evaluate(frame, scored.predicted_harm, scored.unsafe_mean, gap, Bootstrap())
    members = []
    for number, seed in enumerate(scorer.seeds):
        alone = {name: values[number : number + 1] for name, values in scorer.parameters.items()}
        unsafe = score_frame(replace(scorer, seeds=(seed,), parameters=alone), frame).unsafe_mean
        members.append(
            {
                "epoch": 5,
                "seed": seed,
                "loss": 1.0,
                "unsafe_auroc": auroc(unsafe, frame.unsafe),
                "pair_accuracy": 0.5,
                "negative_brier": -brier(unsafe, frame.unsafe),
                "is_best": True,
                "split": "validation",
            }
        )
    worse = [member | {"epoch": small_pipeline.EPOCHS, "unsafe_auroc": 0.0, "is_best": False} for member in members]
    return {"ensemble": [metric.to_json() for metric in ensemble], "members": members}, [*members, *worse]
