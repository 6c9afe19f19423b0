"""Members of the epochs that test states choose, in place of those that validation chooses.

The weights are honest ones of the wrong epoch, and the ensemble's metrics are those that they have on validation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import orjson
import pytest

from drsr.offline.audit.running import RETRAIN
from drsr.offline.train.ablations import FULL
from drsr.offline.train.evaluations import Evaluation, Quality, history_bytes
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.fitting import TrainedScorer, train_scorer
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.metrics import Bootstrap, evaluate
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import read_inputs, training_key
from drsr.scorer.weights import scorer_bytes
from tests.offline import small_pipeline
from tests.offline.audit.published import PublishedPipeline, audited, by_hand, failures, publish_again
from tests.offline.small_pipeline import Pipeline, fit, quick_params

PARAMS = replace(quick_params(), train=replace(quick_params().train, evaluate_every=1))
"""Ten epochs to choose from."""
History = Callable[[TrainedScorer, TrainedScorer], list[Evaluation]]


def marked(honest: TrainedScorer, chosen_by_test: TrainedScorer) -> list[Evaluation]:
    """Write down what validation says of every epoch, and mark the ones that test chose as the best."""
    wanted = {(row.seed, row.epoch) for row in chosen_by_test.chosen}
    return [row._replace(is_best=(row.seed, row.epoch) in wanted) for row in honest.history]


def as_it_was(honest: TrainedScorer, chosen_by_test: TrainedScorer) -> list[Evaluation]:
    """Write down what test says of every epoch, as code would that was only given another frame."""
    return [row._replace(split="test") for row in chosen_by_test.history]


def consistent(honest: TrainedScorer, chosen_by_test: TrainedScorer) -> list[Evaluation]:
    """Write down what validation says of the epochs that test chose, and make every other epoch worse."""
    wanted = {(row.seed, row.epoch) for row in chosen_by_test.chosen}
    return [
        row._replace(is_best=True)
        if (row.seed, row.epoch) in wanted
        else row._replace(is_best=row.epoch == 1, quality=Quality(0.0, 0.0, -1.0))
        for row in honest.history
    ]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (marked, "was marked as its best and is not"),
        (as_it_was, "evaluations that choose an epoch were computed on test"),
    ],
)
def test_evaluations_that_give_it_away(release: PublishedPipeline, tmp_path: Path, written: History, says: str) -> None:
    caught = failures(audited(_forged(release.pipeline, written, tmp_path)))
    assert list(caught) == ["scorer judged again"]
    assert says in caught["scorer judged again"]


def test_evaluations_that_fit(release: PublishedPipeline, tmp_path: Path) -> None:
    """Only who trains again can tell."""
    forged = _forged(release.pipeline, consistent, tmp_path)
    assert failures(audited(forged)) == {}
    caught = failures(audited(forged, [RETRAIN]))
    assert ", by validation it is of epoch " in caught["scorer trained again"]
    assert " on validation, kept was 1" in caught["scorer trained again"]


def test_evaluations_of_validation(release: PublishedPipeline, tmp_path: Path) -> None:
    """The honest training of the same data passes."""
    pipeline = release.pipeline
    calibration = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, PARAMS)
    again = publish_again(pipeline._replace(calibration=calibration), tmp_path / "honest")
    assert failures(audited(again)) == {}
    assert failures(audited(again, [RETRAIN])) == {}


def _forged(pipeline: Pipeline, written: History, folder: Path) -> PublishedPipeline:
    """Publish a scorer whose epochs test chose; nothing that was read on the way is in the catalog's log."""
    fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, PARAMS)
    elsewhere = small_pipeline.copy_of(pipeline, folder / "elsewhere")
    inputs = read_inputs(elsewhere.catalog, elsewhere.artifacts, "default", "default", "train")
    test = get_training_frame(elsewhere.catalog, elsewhere.artifacts, "default", split="test", purpose="evaluate")
    elsewhere.catalog.close()
    values = {field.name: getattr(test, field.name) for field in fields(test)}
    tasks = tuple(f"invented {number}" for number in range(len(test.state_ids)))  # one task alone would be refused
    stopped_by = TrainingFrame(**values | {"split": "validation", "group_ids": tasks})
    honest, other = (
        train_scorer(inputs.train, frame, PARAMS.train, column_groups=inputs.column_groups)
        for frame in (inputs.validation, stopped_by)
    )
    assert [row.epoch for row in other.chosen] != [row.epoch for row in honest.chosen]
    history = written(honest, other)
    members = [row.to_json() for row in {row.seed: row for row in history if row.is_best}.values()]
    scored = score_frame(other.ensemble, inputs.validation)
    found = evaluate(
        inputs.validation, scored.predicted_harm, scored.unsafe_mean, PARAMS.train.meaningful_gap, Bootstrap()
    )
    metrics = {"ensemble": [metric.to_json() for metric in found], "members": members}
    by_hand(pipeline, "DELETE FROM policy_release")
    by_hand(pipeline, "DELETE FROM calibration_run")
    by_hand(
        pipeline,
        "UPDATE training_run SET weights = ?, history = ?, metrics = ?, chosen_epochs = ? WHERE run_key = ?",
        pipeline.artifacts.put(scorer_bytes(other.ensemble)),
        pipeline.artifacts.put(history_bytes(history)),
        orjson.dumps(metrics).decode(),
        orjson.dumps([row.epoch for row in other.chosen]).decode(),
        training_key(inputs, PARAMS.train, FULL),
    )
    calibration = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, PARAMS)
    return publish_again(pipeline._replace(calibration=calibration), folder / "forged")
