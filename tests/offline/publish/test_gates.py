"""The checks before publishing: each passes on a sound catalog, and each fails when what it looks at is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, text, update

from drsr.backbone.catalogue import load_backbone
from drsr.errors import ReleaseRefused
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.scorer_tables import CalibrationRun
from drsr.offline.publish import candidate as release_candidate
from drsr.offline.publish.candidate import build, decide_golden, policy_numbers
from drsr.offline.publish.gates import (
    Gate,
    Subject,
    admissible,
    agreement,
    calibration_repeats,
    golden,
    lineage,
    refuse_failed,
    split_unread,
)
from drsr.offline.publish.golden_requests import golden_requests, sample_requests
from drsr.offline.publish.lineage import Traced, trace
from drsr.offline.train.records import find_calibration
from drsr.offline.train.stage import load_trained
from drsr.request.contracts import Backbone
from tests.offline.small_pipeline import Pipeline


@pytest.fixture
def traced(pipeline: Pipeline) -> Traced:
    return trace(pipeline.catalog, pipeline.artifacts, pipeline.calibration)


def subject_of(pipeline: Pipeline, traced: Traced, *, may_abstain_always: bool = False) -> Subject:
    return Subject(pipeline.catalog, pipeline.artifacts, traced, may_abstain_always)


def test_lineage(pipeline: Pipeline, traced: Traced) -> None:
    assert lineage(subject_of(pipeline, traced)).passed
    broken = traced._replace(problems=("first", "second"))
    assert lineage(subject_of(pipeline, broken)) == (False, "first (and 1 more)")


def test_admissible(pipeline: Pipeline, traced: Traced) -> None:
    assert admissible(subject_of(pipeline, traced)).passed
    nothing = traced._replace(calibration=traced.calibration._replace(abstains_always=True))
    assert not admissible(subject_of(pipeline, nothing)).passed
    assert admissible(subject_of(pipeline, nothing, may_abstain_always=True)).passed


@pytest.mark.parametrize(
    ("column", "value"), [("risk_threshold", 0.123), ("max_cardinality", 4), ("selected", 0), ("mean_removal", 0.5)]
)
def test_an_operating_point_that_was_changed_by_hand(pipeline: Pipeline, column: str, value: Any) -> None:
    with pipeline.catalog.writing() as connection:
        connection.execute(update(CalibrationRun).values({column: value}))
    with pipeline.catalog.reading() as connection:
        record = find_calibration(connection, pipeline.calibration.calibration_key)
    assert record is not None
    verdict = calibration_repeats(subject_of(pipeline, trace(pipeline.catalog, pipeline.artifacts, record)))
    assert not verdict.passed
    assert f"{column} " in verdict.detail
    assert f"recorded {value}" in verdict.detail


def test_an_operating_point_of_other_code(pipeline: Pipeline, traced: Traced) -> None:
    assert calibration_repeats(subject_of(pipeline, traced)).passed
    older = traced._replace(calibration=traced.calibration._replace(version="calibration/0"))
    verdict = calibration_repeats(subject_of(pipeline, older))
    assert (verdict.passed, "run drsr calibrate again" in verdict.detail) == (False, True)


def test_a_read_of_the_test_split(pipeline: Pipeline, traced: Traced) -> None:
    """The database refuses to record one; a check that rests on it alone would not notice a database without."""
    subject = subject_of(pipeline, traced)
    assert split_unread(subject).passed
    with pipeline.catalog.engine.connect() as connection:
        connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        connection.execute(update(SplitRead).where(SplitRead.split == "validation").values(split="test"))
        connection.commit()
    verdict = split_unread(subject)
    assert not verdict.passed
    assert "were of the test split" in verdict.detail


def test_a_log_without_reads_shows_nothing(pipeline: Pipeline, traced: Traced) -> None:
    with pipeline.catalog.writing() as connection:
        connection.execute(delete(SplitRead))
    assert not split_unread(subject_of(pipeline, traced)).passed


@pytest.fixture
def backbone(pipeline: Pipeline) -> Backbone:
    return load_backbone(pipeline.backbone)


def test_agreement(pipeline: Pipeline, traced: Traced, backbone: Backbone) -> None:
    numbers = policy_numbers(traced, load_trained(pipeline.artifacts, traced.run), backbone)
    assert agreement(traced, numbers, backbone).passed
    view, labeler = traced.view, traced.labeler
    wrong = {
        "backbone of the features": traced._replace(view=_view(view, backbone_identity="0")),
        "dtype of the features": traced._replace(view=_view(view, dtype="float16")),
        "layout of the features": traced._replace(view=_view(view, layout_hash="0")),
        "renderer of the features": traced._replace(view=_view(view, renderer_version="0")),
        "candidate rule of the features": traced._replace(view=_view(view, rule_hash="0")),
        "tokenizer of the features": traced._replace(view=_view(view, tokenizer_identity="0")),
        "layout of the scorer": traced._replace(run=traced.run._replace(layout_hash="0")),
        "backbone of the labels": traced._replace(labeler=_labeler(labeler, backbone_identity="0")),
        "renderer of the labels": traced._replace(labeler=_labeler(labeler, renderer_version="0")),
        "candidate rule of the labels": traced._replace(labeler=_labeler(labeler, rule_hash="0")),
        "harm tolerance of the labels": traced._replace(labeler=_labeler(labeler, harm_tolerance=0.5)),
        "target cap of the labels": traced._replace(labeler=_labeler(labeler, target_cap=7)),
    }
    for what, other in wrong.items():
        gate = agreement(other, numbers, backbone)
        assert not gate.passed
        assert gate.detail.startswith(f"{what} is ")
    for changes in ({"context_cap": 1000}, {"layout_hash": "0"}, {"backbone": replace(numbers.backbone, identity="0")}):
        assert not agreement(traced, replace(numbers, **changes), backbone).passed


def _view(view: Any, **changes: str) -> Any:
    return view._replace(identity=view.identity._replace(**changes))


def _labeler(labeler: Any, **changes: Any) -> Any:
    return labeler._replace(identity=labeler.identity._replace(**changes))


def test_golden_requests_that_decide_otherwise(pipeline: Pipeline, traced: Traced, backbone: Backbone) -> None:
    scorer = load_trained(pipeline.artifacts, traced.run)
    numbers = policy_numbers(traced, scorer, backbone)
    decided = decide_golden(numbers, scorer, backbone)
    assert golden(build(traced, scorer, numbers, decided, "1").package, backbone).passed
    turned = decided[0]._replace(expected=decided[0].expected._replace(removed=("9.9",)))
    gate = golden(build(traced, scorer, numbers, [turned, *decided[1:]], "1").package, backbone)
    assert not gate.passed
    assert "bundled sample: removed is" in gate.detail


def test_a_policy_that_prunes_no_usual_request_is_asked_about_the_sample_corpus(
    pipeline: Pipeline, traced: Traced, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = load_trained(pipeline.artifacts, traced.run)
    numbers = policy_numbers(traced, scorer, backbone)
    short = {"too short to prune": golden_requests()["too short to prune"]}
    monkeypatch.setattr(release_candidate, "golden_requests", lambda: short)
    decided = decide_golden(numbers, scorer, backbone)
    assert [item.expected.pruned for item in decided] == [False, True, True]
    assert all(item.name.startswith("sample sandbox-") for item in decided[1:])
    assert decide_golden(numbers, scorer, backbone) == decided
    gate = golden(build(traced, scorer, numbers, decided, "1").package, backbone)
    assert (gate.passed, gate.detail) == (True, "3 requests decide as expected, 2 of them are pruned")
    gate = golden(build(traced, scorer, numbers, decided[:1], "1").package, backbone)
    assert gate.passed
    assert gate.detail.startswith("WARNING: 1 requests decide as expected, 0 of them are pruned")


def test_sample_requests_are_the_same_every_time() -> None:
    found = list(sample_requests())
    assert [name for name, _ in found] == [name for name, _ in sample_requests()]
    assert len({name for name, _ in found}) == len(found) >= 40
    kinds = [request["messages"][0]["content"].partition(".")[0] for _, request in found[:20]]
    assert len(set(kinds)) >= 3
    assert all(request["messages"][-1]["role"] != "assistant" for _, request in found)


def test_a_failed_check_refuses() -> None:
    gates = [Gate("one", True, "fine"), Gate("two", False, "wrong"), Gate("three", False, "bad")]
    with pytest.raises(ReleaseRefused, match="nothing was published: two, three failed: wrong") as refusal:
        refuse_failed(gates)
    assert refusal.value.gates == tuple(gates)
    refuse_failed(gates[:1])
