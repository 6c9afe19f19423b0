"""The rule by which a new policy may take the released one's place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.decide.selection import ProposedSets, SelectionRule, select
from drsr.offline.audit.release import gated_order
from drsr.offline.calibrate.stage import frozen_rule
from drsr.offline.publish.lineage import trace
from drsr.offline.publish.subject import Order, PolicyCandidate, Subject
from drsr.offline.publish.succession import NOT_WORSE, Performance, compare, judge_succession, not_worse, performance
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.records import get_training_run
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import load_trained, read_inputs
from drsr.request.contracts import SetScorer
from tests.offline.small_pipeline import Pipeline, fit, publish_quickly, quick_params

LIMITS = {"max_unsafe_rate": 0.10, "max_mean_harm": 0.02}
GOOD = Performance(0.08, 0.05, 0.01)
performances = st.builds(Performance, *[st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.2])] * 3)


@pytest.mark.parametrize(
    ("new", "released", "passed", "said"),
    [
        (GOOD, GOOD, True, "the released one"),
        (GOOD._replace(mean_removal=0.09), GOOD, True, "9.00% removed"),
        (GOOD._replace(mean_removal=0.0799), GOOD, False, "worse on validation"),
        (GOOD._replace(unsafe_rate=0.06), GOOD, False, "worse on validation"),
        (GOOD._replace(unsafe_rate=0.04, mean_harm=0.015), GOOD, True, "the released one"),
        (GOOD._replace(mean_harm=0.011), GOOD, False, "worse on validation"),
        (GOOD._replace(mean_removal=0.01), GOOD._replace(unsafe_rate=0.11), True, "no longer keeps to the limits"),
        (GOOD._replace(mean_removal=0.01), GOOD._replace(mean_harm=0.03), True, "no longer keeps to the limits"),
        (GOOD._replace(unsafe_rate=0.11), Performance(0.0, 0.0, 0.0), False, "does not keep to the limits"),
        (Performance(0.0, 0.0, 0.0), GOOD, False, "worse on validation"),
        (GOOD, Performance(0.0, 0.0, 0.0), True, "the released one"),
    ],
)
def test_the_rule(new: Performance, released: Performance, passed: bool, said: str) -> None:
    verdict = compare(new, released, **LIMITS)
    assert verdict.may_follow is passed
    assert said in verdict.why


@given(performances, performances)
def test_of_two_that_keep_to_the_limits_one_at_least_may_follow_the_other(a: Performance, b: Performance) -> None:
    if a.keeps_to(**LIMITS) and b.keeps_to(**LIMITS):
        assert compare(a, b, **LIMITS).may_follow or compare(b, a, **LIMITS).may_follow


@given(performances, performances, performances)
def test_whoever_may_follow_a_follower_may_follow_at_once(a: Performance, b: Performance, c: Performance) -> None:
    if all(one.keeps_to(**LIMITS) for one in (a, b, c)) and compare(b, a, **LIMITS).may_follow:
        assert not compare(c, b, **LIMITS).may_follow or compare(c, a, **LIMITS).may_follow


def test_performance_is_that_of_the_calibration_and_of_selecting_state_by_state(pipeline: Pipeline) -> None:
    record = pipeline.calibration
    inputs = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "calibrate")
    with pipeline.catalog.reading() as connection:
        scorer = load_trained(pipeline.artifacts, get_training_run(connection, record.training_run_id))
    rule = frozen_rule(record)
    found = performance(scorer, inputs.validation, rule, record.uncertainty_coefficient)
    assert found == pytest.approx((record.mean_removal, record.unsafe_rate, record.mean_harm))
    slow = slowly(scorer, inputs.validation, rule, record.uncertainty_coefficient)
    assert found == pytest.approx(slow)
    never = performance(scorer, inputs.validation, replace(rule, risk_threshold=float("-inf")), 0.0)
    assert never == (0.0, 0.0, 0.0)


def slowly(scorer: SetScorer, frame: ExampleFrame, rule: SelectionRule, coefficient: float) -> Performance:
    """One state after the other, by the function that decides online."""
    sets = score_frame(scorer, frame).proposed(coefficient)
    removed, unsafe, harm = [], [], []
    for state in range(len(frame.state_ids)):
        rows = np.flatnonzero(frame.state == state)
        mine = ProposedSets(
            sets.cardinality[rows],
            sets.direct_saving[rows],
            sets.protocol_safe[rows],
            sets.unsafe_score[rows],
            sets.predicted_harm[rows],
        )
        chosen = select(mine, int(frame.request_tokens[state]), rule).chosen
        if chosen is None:
            removed.append(0.0)
            continue
        row = rows[chosen]
        removed.append(float(frame.direct_saving[row] / frame.request_tokens[state]))
        unsafe.append(float(frame.unsafe[row]))
        harm.append(float(frame.harm[row]))
    return Performance(float(np.mean(removed)), float(np.mean(unsafe)), float(np.mean(harm)))


def test_before_the_first_release_there_is_nobody_to_be_worse_than(pipeline: Pipeline) -> None:
    traced = trace(pipeline.catalog, pipeline.artifacts, pipeline.calibration)
    (verdict,) = not_worse(
        Subject(pipeline.catalog, pipeline.artifacts, Order(), PolicyCandidate(traced)), lambda *_: None
    )
    assert (verdict.passed, verdict.detail) == (True, "nothing was released before")


def test_after_a_release_the_next_one_is_compared_with_it(pipeline: Pipeline) -> None:
    catalog, artifacts = pipeline.catalog, pipeline.artifacts
    order = gated_order(index=pipeline.folder / "index", more_checks=(NOT_WORSE,))
    published = publish_quickly(pipeline, order)
    assert NOT_WORSE.name in [gate.check for gate in published.gates]
    validation = read_inputs(catalog, artifacts, "default", "default", "calibrate").validation
    with catalog.reading() as connection:
        run = get_training_run(connection, pipeline.calibration.training_run_id)
    same = judge_succession(catalog, artifacts, pipeline.calibration, run, validation)
    assert (same.may_follow, "it is the released one" in same.why) == (True, True)
    timid = fit(catalog, artifacts, pipeline.folder, quick_params(removal_cap=0.05))
    assert timid.mean_removal < pipeline.calibration.mean_removal
    worse = judge_succession(catalog, artifacts, timid, run, validation)
    assert (worse.may_follow, worse.why.startswith("worse on validation")) == (False, True)
    other = judge_succession(catalog, artifacts, timid, run._replace(layout_hash="other"), validation)
    assert (other.may_follow, "cannot be judged" in other.why) == (False, True)
