"""Test tasks that were read before a policy was calibrated: when that makes its evaluation void, and when not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select

from drsr.offline.audit.checks.split_reads import check_split_reads
from drsr.offline.audit.release import gated_order
from drsr.offline.catalog.tables import Source, Trajectory
from drsr.offline.ingest.withdrawals import withdraw
from drsr.offline.publish.lineage import trace
from drsr.offline.publish.subject import Order, PolicyCandidate, Subject
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.records import CalibrationRecord
from drsr.offline.train.stage import read_inputs, train
from drsr.offline.verdicts import Verdict
from tests.offline.small_pipeline import Pipeline, fit, publish_quickly, quick_params


def evaluate(pipeline: Pipeline) -> None:
    get_training_frame(pipeline.catalog, pipeline.artifacts, split="test", purpose="evaluate")


def calibrated(pipeline: Pipeline, **calibrate: Any) -> CalibrationRecord:
    return fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(**calibrate))


def judged(pipeline: Pipeline, calibration: CalibrationRecord) -> Verdict:
    candidate = PolicyCandidate(trace(pipeline.catalog, pipeline.artifacts, calibration))
    subject = Subject(pipeline.catalog, pipeline.artifacts, Order(), candidate)
    (verdict,) = check_split_reads(subject, lambda done, total: None)
    return verdict


def take_out(pipeline: Pipeline, split: str) -> None:
    """Withdraw the first run of a split."""
    runs = (
        select(Source.name, Trajectory.external_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.split == split, Trajectory.is_current())
        .order_by(Trajectory.id)
    )
    with pipeline.catalog.writing() as connection:
        source, name = connection.execute(runs.limit(1)).one()
        withdraw(connection, f"{source}/{name}", "for the test")


def test_parameters_that_were_chosen_after_a_look_at_test(pipeline: Pipeline) -> None:
    evaluate(pipeline)
    assert judged(pipeline, pipeline.calibration).passed  # it was calibrated before
    verdict = judged(pipeline, calibrated(pipeline, removal_cap=0.19))
    assert not verdict.passed
    assert "the test split was read to evaluate on " in verdict.detail
    assert "1 of 1 tasks of the present test split had a label then" in verdict.detail
    assert verdict.hint is not None
    assert verdict.hint.startswith("calibrate before you evaluate")
    assert verdict.evidence["early_reads"] == {"reads": 1, "test_groups_read": 1, "test_groups": 1, "releases": []}


def test_the_same_parameters_night_after_night(pipeline: Pipeline) -> None:
    """Also where a night published nothing: whatever the read said, nothing was chosen by it."""
    evaluate(pipeline)
    take_out(pipeline, "train")  # so that the next night has other data
    second = calibrated(pipeline)
    assert second.id != pipeline.calibration.id
    verdict = judged(pipeline, second)
    assert verdict.passed
    assert "1 to evaluate, 1 of these before this calibration; 1 of 1 tasks" in verdict.detail


def test_other_parameters_after_a_release(pipeline: Pipeline) -> None:
    evaluate(pipeline)
    publish_quickly(pipeline, gated_order(pipeline.folder / "index", version="1.0"))
    second = calibrated(pipeline, removal_cap=0.19)
    verdict = judged(pipeline, second)
    assert verdict.passed
    assert "which judged release 1.0" in verdict.detail
    assert verdict.evidence["early_reads"]["releases"] == ["1.0"]
    evaluate(pipeline)  # the second is not released, and a third learns from this look at it
    assert judged(pipeline, second).passed
    verdict = judged(pipeline, calibrated(pipeline, removal_cap=0.18))
    assert not verdict.passed
    assert len(verdict.items) == 1


def test_other_parameters_after_nights_that_published_nothing(pipeline: Pipeline) -> None:
    publish_quickly(pipeline, gated_order(pipeline.folder / "index", version="1.0"))
    take_out(pipeline, "train")
    calibrated(pipeline)  # the next night, not published
    evaluate(pipeline)
    verdict = judged(pipeline, calibrated(pipeline, removal_cap=0.19))
    assert verdict.passed
    assert "which judged release 1.0" in verdict.detail


def test_a_scorer_that_was_tried_on_test_after_a_release(pipeline: Pipeline) -> None:
    """`drsr evaluate` with other parameters trains, reads test, and calibrates nothing that the catalog keeps."""
    publish_quickly(pipeline, gated_order(pipeline.folder / "index", version="1.0"))
    numbers = quick_params()
    numbers = replace(numbers, train=replace(numbers.train, weight_decay=0.1))
    inputs = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "train")
    checkpoints = pipeline.folder / "checkpoints"
    train(pipeline.catalog, pipeline.artifacts, inputs, numbers.train, checkpoints=checkpoints, workers=1)
    evaluate(pipeline)
    assert not judged(pipeline, fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers)).passed


def test_tasks_that_nobody_has_seen(pipeline: Pipeline) -> None:
    evaluate(pipeline)
    second = calibrated(pipeline, removal_cap=0.19)
    assert not judged(pipeline, second).passed
    take_out(pipeline, "test")
    verdict = judged(pipeline, second)
    assert verdict.passed
    assert "0 of 0 tasks of the present test split had a label then" in verdict.detail
