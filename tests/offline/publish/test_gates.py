"""The checks before publishing: each passes on a sound catalog, and each fails when what it looks at is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, text, update

from drsr.backbone.catalogue import load_backbone
from drsr.errors import ReleaseRefused
from drsr.offline.audit.checks.calibration import check_calibration
from drsr.offline.audit.checks.golden import check_golden
from drsr.offline.audit.checks.split_reads import check_split_reads
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.scorer_tables import CalibrationRun
from drsr.offline.publish import candidate as release_candidate
from drsr.offline.publish.candidate import build, decide_golden, policy_numbers
from drsr.offline.publish.gates import admissible, agreement, in_one, refuse_failed
from drsr.offline.publish.golden_requests import golden_requests, sample_requests
from drsr.offline.publish.lineage import Traced, trace
from drsr.offline.publish.subject import Order, PolicyCandidate, Subject
from drsr.offline.train.records import find_calibration
from drsr.offline.train.stage import load_trained
from drsr.offline.verdicts import Check, Section, Severity, Told, Verdict
from drsr.request.contracts import Backbone
from tests.offline.small_pipeline import Pipeline


@pytest.fixture
def traced(pipeline: Pipeline) -> Traced:
    return trace(pipeline.catalog, pipeline.artifacts, pipeline.calibration)


def asked(ask: Callable[[Subject, Told], list[Verdict]], pipeline: Pipeline, candidate: PolicyCandidate) -> Verdict:
    """The answer about a candidate."""
    (verdict,) = ask(Subject(pipeline.catalog, pipeline.artifacts, Order(), candidate), lambda done, total: None)
    return verdict


def test_admissible(pipeline: Pipeline, traced: Traced) -> None:
    assert asked(admissible, pipeline, PolicyCandidate(traced)).passed
    nothing = traced._replace(calibration=traced.calibration._replace(abstains_always=True))
    assert not asked(admissible, pipeline, PolicyCandidate(nothing)).passed
    assert asked(admissible, pipeline, PolicyCandidate(nothing, may_abstain_always=True)).passed


@pytest.mark.parametrize(
    ("column", "value"), [("risk_threshold", 0.123), ("max_cardinality", 4), ("selected", 0), ("mean_removal", 0.5)]
)
def test_an_operating_point_that_was_changed_by_hand(pipeline: Pipeline, column: str, value: Any) -> None:
    with pipeline.catalog.writing() as connection:
        connection.execute(update(CalibrationRun).values({column: value}))
    with pipeline.catalog.reading() as connection:
        record = find_calibration(connection, pipeline.calibration.calibration_key)
    assert record is not None
    changed = PolicyCandidate(trace(pipeline.catalog, pipeline.artifacts, record))
    verdict = asked(check_calibration, pipeline, changed)
    assert not verdict.passed
    assert any(column in item for item in verdict.items)


def test_an_operating_point_of_other_code(pipeline: Pipeline, traced: Traced) -> None:
    assert asked(check_calibration, pipeline, PolicyCandidate(traced)).passed
    older = traced._replace(calibration=traced.calibration._replace(version="calibration/0"))
    assert "made by calibration/0" in asked(check_calibration, pipeline, PolicyCandidate(older)).detail


def test_a_read_of_the_test_split(pipeline: Pipeline, traced: Traced) -> None:
    """The database refuses to record one; a check that rests on it alone would not notice a database without."""
    assert asked(check_split_reads, pipeline, PolicyCandidate(traced)).passed
    with pipeline.catalog.engine.connect() as connection:
        connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        connection.execute(update(SplitRead).where(SplitRead.split == "validation").values(split="test"))
        connection.commit()
    verdict = asked(check_split_reads, pipeline, PolicyCandidate(traced))
    assert not verdict.passed
    assert "the test split was read to train" in verdict.detail


def test_a_log_without_reads_shows_nothing(pipeline: Pipeline, traced: Traced) -> None:
    with pipeline.catalog.writing() as connection:
        connection.execute(delete(SplitRead))
    assert not asked(check_split_reads, pipeline, PolicyCandidate(traced)).passed


@pytest.fixture
def backbone(pipeline: Pipeline) -> Backbone:
    return load_backbone(pipeline.backbone)


def test_agreement(pipeline: Pipeline, traced: Traced, backbone: Backbone) -> None:
    numbers = policy_numbers(traced, load_trained(pipeline.artifacts, traced.run), backbone)
    sound = PolicyCandidate(traced, numbers=numbers, backbone=backbone)
    assert asked(agreement, pipeline, sound).passed
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
        gate = asked(agreement, pipeline, sound._replace(traced=other))
        assert not gate.passed
        assert gate.detail.startswith(f"{what} is ")
    for changes in ({"context_cap": 1000}, {"layout_hash": "0"}, {"backbone": replace(numbers.backbone, identity="0")}):
        assert not asked(agreement, pipeline, sound._replace(numbers=replace(numbers, **changes))).passed


def _view(view: Any, **changes: str) -> Any:
    return view._replace(identity=view.identity._replace(**changes))


def _labeler(labeler: Any, **changes: Any) -> Any:
    return labeler._replace(identity=labeler.identity._replace(**changes))


def test_golden_requests_that_decide_otherwise(pipeline: Pipeline, traced: Traced, backbone: Backbone) -> None:
    scorer = load_trained(pipeline.artifacts, traced.run)
    numbers = policy_numbers(traced, scorer, backbone)
    decided = decide_golden(numbers, scorer, backbone)
    sound = PolicyCandidate(
        traced, numbers=numbers, backbone=backbone, built=build(traced, scorer, numbers, decided, "1")
    )
    assert asked(check_golden, pipeline, sound).passed
    turned = decided[0]._replace(expected=decided[0].expected._replace(removed=("9.9",)))
    built = build(traced, scorer, numbers, [turned, *decided[1:]], "1")
    gate = asked(check_golden, pipeline, sound._replace(built=built))
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
    pruning = PolicyCandidate(
        traced, numbers=numbers, backbone=backbone, built=build(traced, scorer, numbers, decided, "1")
    )
    gate = asked(check_golden, pipeline, pruning)
    assert gate.passed
    assert gate.detail.startswith("3 decide as expected, 2 are pruned")
    gate = asked(check_golden, pipeline, pruning._replace(built=build(traced, scorer, numbers, decided[:1], "1")))
    assert gate.passed
    assert gate.detail.startswith("WARNING: 1 decide as expected, 0 are pruned")


def test_sample_requests_are_the_same_every_time() -> None:
    found = list(sample_requests())
    assert [name for name, _ in found] == [name for name, _ in sample_requests()]
    assert len({name for name, _ in found}) == len(found) >= 40
    kinds = [request["messages"][0]["content"].partition(".")[0] for _, request in found[:20]]
    assert len(set(kinds)) >= 3
    assert all(request["messages"][-1]["role"] != "assistant" for _, request in found)


def verdict(check: str, detail: str, *, passed: bool) -> Verdict:
    return Verdict(check, Severity.MAJOR, passed, detail)


def test_a_failed_check_refuses() -> None:
    gates = [verdict("one", "fine", passed=True), verdict("two", "wrong", passed=False)]
    gates.append(verdict("three", "bad", passed=False))
    with pytest.raises(ReleaseRefused, match="nothing was published: two, three failed: wrong") as refusal:
        refuse_failed(gates)
    assert refusal.value.gates == (("one", True, "fine"), ("two", False, "wrong"), ("three", False, "bad"))
    refuse_failed(gates[:1])


def test_a_check_of_many_rules_is_one_gate() -> None:
    check: Check[Subject] = Check("rules", Severity.MAJOR, "", "", lambda subject, told: [])
    kept, broken = verdict("a: kept", "3 rows", passed=True), verdict("a: broken", "1 of 3 rows", passed=False)
    assert in_one(Section(check, (broken,), 0.0)) == broken
    assert in_one(Section(check, (kept, kept), 0.0)).detail == "2 rules are kept"
    found = in_one(Section(check, (kept, broken, broken), 0.0))
    assert (found.check, found.passed, found.detail) == ("rules", False, "a: broken: 1 of 3 rows (and 1 more)")
