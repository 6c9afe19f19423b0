"""The example at the end of the demo: found from stored features, and pruned the same by the published package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.offline.audit.release import gated_order
from drsr.offline.publish.pruned_example import PrunedExample, find_pruned_example
from drsr.policy.policy import Decision, load_policy
from drsr.request.view import caps_for
from scripts.demo_ending import ending, look_next, removed_text
from tests.offline.small_pipeline import Pipeline, publish_quickly


def found_in(pipeline: Pipeline, **changes: object) -> PrunedExample | None:
    backbone = load_backbone(pipeline.backbone)
    calibration = pipeline.calibration._replace(**changes)  # type: ignore[arg-type]
    return find_pruned_example(
        pipeline.catalog, pipeline.artifacts, calibration, backbone.tokenizer, caps_for(backbone.window)
    )


def test_the_package_does_what_the_stored_features_say(pipeline: Pipeline, tmp_path: Path) -> None:
    example = found_in(pipeline)
    assert example is not None
    order = gated_order(tmp_path / "index", version="1.0")
    wheel = publish_quickly(pipeline, order).wheel
    decision = load_policy(str(wheel)).prune(request=example.request)
    assert decision.pruned
    chosen = next(row for row in decision.receipt["sets"] if row["verdict"] == "chosen")
    assert chosen["unsafe_score"] == pytest.approx(example.unsafe_score, abs=1e-5)
    assert decision.tokens_before is not None
    assert decision.tokens_saved / decision.tokens_before == pytest.approx(example.removal)
    assert 1 <= example.pruned <= example.states
    text = ending(example, decision, pipeline.calibration.risk_threshold)
    assert f"{decision.tokens_saved:,} tokens ({example.removal:.1%} of the request)" in text
    assert f"{chosen['unsafe_score']:.3f}" in text
    assert f"{example.harm:+.3f} nats per token" in text
    assert len(removed_text(decision)) >= 1
    assert str(wheel) in look_next(wheel)


def test_no_example_where_the_policy_abstains(pipeline: Pipeline) -> None:
    assert found_in(pipeline, risk_threshold=None) is None


def test_a_request_that_is_left_alone_is_said(pipeline: Pipeline, tmp_path: Path) -> None:
    example = found_in(pipeline)
    assert example is not None
    decision = Decision("0" * 16, example.request, False, None, "", 10, 10, None)  # type: ignore[arg-type]
    assert "left the example request as it is" in ending(example, replace(decision, reason=None), 0.1)
