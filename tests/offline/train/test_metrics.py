"""Metrics against scikit-learn, scipy and the definitions written out; intervals against known coverage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import brier_score_loss, roc_auc_score

from drsr.offline.train.metrics import (
    SCOPES,
    Bootstrap,
    Metric,
    auroc,
    auroc_gain,
    auroc_replicates,
    brier,
    count_pairs,
    draw_trajectories,
    evaluate,
    grouping,
    pair_gain,
    ratio_metric,
    spearman_within,
)
from tests.offline.frames import make_frame, make_scored, make_test_frame, params

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.1, 0.3]), st.floats(-1, 1, width=16)),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, gap=st.sampled_from([0.02, 0.5]))
def test_pair_accuracy_is_the_double_loop(rows: list[tuple[int, int, float, float]], gap: float) -> None:
    group, trajectory, predicted, harm = (np.array(column) for column in zip(*rows, strict=True))
    trajectory = group % 2
    found = count_pairs(predicted, harm, group, trajectory, gap)
    everything: list[float] = []
    for i in range(len(rows)):
        for j in range(i):
            if group[i] == group[j] and abs(harm[i] - harm[j]) >= gap:
                product = (predicted[i] - predicted[j]) * (harm[i] - harm[j])
                credit = 0.5 if product == 0 else float(product > 0)
                everything.append(credit)
    if not everything:
        assert math.isnan(found.pooled)
        return
    assert found.pairs.sum() == len(everything)
    assert found.pooled == pytest.approx(np.mean(everything))


def test_every_pair_weighs_the_same_whatever_its_trajectory() -> None:
    harm = np.array([0.0, 0.1, 0.2, 0.0, 0.1])
    predicted = np.array([0.0, 1.0, 2.0, 1.0, 0.0])
    trajectory = np.array([0, 0, 0, 1, 1])
    assert count_pairs(predicted, harm, trajectory, trajectory, 0.02).pooled == 0.75


def test_the_gap_is_inclusive() -> None:
    counts = count_pairs(
        np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.02, 0.0399]), np.zeros(3, int), np.zeros(3, int), 0.02
    )
    assert counts.pairs.tolist() == [2.0]


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), levels=st.sampled_from([3, 10, 10_000]))
def test_auroc_and_brier_are_scikit_learns(seed: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    unsafe = generator.random(60) < 0.4
    unsafe[:2] = [True, False]
    score = np.round(generator.random(60) * levels) / levels
    assert auroc(score, unsafe) == pytest.approx(roc_auc_score(unsafe, score))
    assert brier(score, unsafe) == pytest.approx(brier_score_loss(unsafe, score))


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), levels=st.sampled_from([1, 3, 10_000]))
def test_replicates_of_auroc_are_to_the_bit_those_of_counting_pairs(seed: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    unsafe = generator.random(60) < 0.4
    score = np.round(generator.random(60) * levels) / levels
    trajectory = generator.integers(0, 7, 60)
    draws = generator.integers(0, 4, (70, 7)).astype(float)
    found = auroc_replicates(score, unsafe, trajectory, draws)
    np.testing.assert_array_equal(found, [auroc_by_pairs(score, unsafe, row[trajectory]) for row in draws])
    several = draws[(draws > 0).all(axis=1)]
    if 0 < unsafe.sum() < 60:
        expected = [roc_auc_score(unsafe, score, sample_weight=row[trajectory]) for row in several]
        np.testing.assert_allclose(auroc_replicates(score, unsafe, trajectory, several), expected)


def auroc_by_pairs(score: NDArray[np.float64], unsafe: NDArray[np.bool_], weight: NDArray[np.float64]) -> float:
    """The slow twin: every unsafe row with every safe one."""
    pairs = weight[unsafe][:, None] * weight[~unsafe]
    if pairs.sum() == 0:
        return math.nan
    difference = score[unsafe][:, None] - score[~unsafe]
    return float((pairs * ((difference > 0) + 0.5 * (difference == 0))).sum() / pairs.sum())


def test_auroc_without_a_class_is_not_a_number() -> None:
    assert math.isnan(auroc(np.array([0.1, 0.2]), np.array([True, True])))


@given(seed=st.integers(0, 10_000), levels=st.sampled_from([2, 1000]))
def test_spearman_is_scipys(seed: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    group = generator.integers(0, 4, 16)
    harm, predicted = np.round(generator.random((2, 16)) * levels) / levels
    found = spearman_within(predicted, harm, group, group)
    expected = np.zeros(4)
    counted = np.zeros(4)
    for number in range(4):
        h, p = harm[group == number], predicted[group == number]
        if len(h) < 3 or len(set(h)) == 1:
            continue
        counted[number] = 1
        expected[number] = 0.0 if len(set(p)) == 1 else spearmanr(h, p).statistic
    width = len(found.total)
    np.testing.assert_allclose(found.total, expected[:width], atol=1e-12)
    np.testing.assert_array_equal(found.groups, counted[:width])


def test_the_report_names_grouping_and_ties_and_brackets_the_value() -> None:
    frame = make_test_frame(25)
    scored = make_scored(frame)
    report = evaluate(
        frame, scored.predicted_harm, scored.unsafe_mean, params().train.meaningful_gap, Bootstrap(replicates=400)
    )
    names = [(metric.name, metric.grouping) for metric in report]
    assert names == [
        ("pair accuracy", "pairs of one state and cardinality, pooled"),
        ("pair accuracy", "pairs of one state and cardinality, mean of trajectories"),
        ("pair accuracy", "pairs of one trajectory and cardinality, pooled"),
        ("pair accuracy", "pairs of one trajectory and cardinality, mean of trajectories"),
        ("Spearman", "sets of one state and cardinality, mean over groups"),
        ("unsafe AUROC", "all sets"),
        ("Brier score", "all sets"),
    ]
    for metric in report:
        assert metric.low < metric.value < metric.high
        assert metric.high - metric.low < 0.3
        assert metric.tie_rule
    assert report.unsafe_auroc.value == pytest.approx(roc_auc_score(frame.unsafe, scored.unsafe_mean))
    assert report.state_pairs.support < report.trajectory_pairs.support  # a state's pairs are among its trajectory's
    again = evaluate(frame, scored.predicted_harm, scored.unsafe_mean, 0.02, Bootstrap(replicates=400))
    assert again == report


def test_groupings() -> None:
    frame = make_frame("train", 3)
    for scope in SCOPES:
        for equal in (True, False):
            group = grouping(frame, scope, equal)
            key = frame.state if scope == "state" else frame.trajectory
            same = group[:, None] == group
            expected = key[:, None] == key
            if equal:
                expected &= frame.cardinality[:, None] == frame.cardinality
            np.testing.assert_array_equal(same, expected)


def test_whole_trajectories_are_drawn() -> None:
    draws = draw_trajectories(np.arange(7), Bootstrap(replicates=500, seed=1))
    assert draws.shape == (500, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert abs(draws.mean() - 1) < 1e-9
    np.testing.assert_array_equal(draws, draw_trajectories(np.arange(7), Bootstrap(replicates=500, seed=1)))


def test_trials_of_one_task_are_drawn_together() -> None:
    draws = draw_trajectories(np.array([0, 1, 0, 2]), Bootstrap(replicates=500, seed=1))
    assert draws.shape == (500, 4)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 2])
    assert (draws[:, [0, 1, 3]].sum(axis=1) == 3).all()


def test_one_task_alone_has_no_interval() -> None:
    frame = make_test_frame(4, trials=4)
    scored = make_scored(frame)
    for metric in evaluate(frame, scored.predicted_harm, scored.unsafe_mean, 0.02, Bootstrap(replicates=50)):
        assert not math.isnan(metric.value)
        assert math.isnan(metric.low)
        assert math.isnan(metric.high)


def test_copied_trials_do_not_narrow_an_interval() -> None:
    """Four identical trials of each task say no more than one: the slow way is to leave the copies out."""
    alone = make_test_frame(10)
    copies = make_test_frame(40, trials=4)
    rows: Any = {name: np.tile(getattr(alone, name), (4, *[1] * (getattr(alone, name).ndim - 1))) for name in COPIED}
    states = len(alone.state_ids)
    repeated = replace(
        copies,
        **rows,
        state_ids=tuple(f"{copy} {name}" for copy in range(4) for name in alone.state_ids),
        trajectory_ids=tuple(f"{copy} {name}" for copy in range(4) for name in alone.trajectory_ids),
        group_ids=alone.group_ids * 4,
        state=np.concatenate([alone.state + copy * states for copy in range(4)]),
    )
    scored = make_scored(alone)
    one = evaluate(alone, scored.predicted_harm, scored.unsafe_mean, 0.02, Bootstrap(replicates=200))
    four = evaluate(
        repeated, np.tile(scored.predicted_harm, 4), np.tile(scored.unsafe_mean, 4), 0.02, Bootstrap(replicates=200)
    )
    for metric, other in zip(one, four, strict=True):
        assert (metric.value, metric.low, metric.high) == pytest.approx((other.value, other.low, other.high))


def test_intervals_widen_when_trajectories_repeat_themselves() -> None:
    """Ten copies of one state per trajectory carry no more information than one: the interval must not shrink."""
    generator = np.random.default_rng(0)
    trajectories, widths = 40, []
    base_harm, base_score = generator.normal(size=(2, trajectories, 6))
    for copies in (1, 10):
        harm, score = (np.repeat(base, copies, axis=0).ravel() for base in (base_harm, base_harm + base_score))
        group = np.repeat(np.arange(trajectories * copies), 6)
        trajectory = np.repeat(np.arange(trajectories), 6 * copies)
        counts = count_pairs(score, harm, group, trajectory, 0.02)
        draws = draw_trajectories(np.arange(trajectories), Bootstrap(replicates=1_000))
        values = (draws @ counts.credit) / (draws @ counts.pairs)
        widths.append(np.quantile(values, 0.975) - np.quantile(values, 0.025))
    assert widths[1] == pytest.approx(widths[0], rel=1e-6)


COPIED = (
    *("request_tokens", "candidate_counts", "candidate_savings", "features"),
    *("mask", "direct_saving", "protocol_safe", "harm", "unsafe"),
)


def drawn_rows(draw: np.ndarray, trajectory: np.ndarray) -> np.ndarray:
    """The rows of one replicate, written out: those of a trajectory that was drawn twice stand there twice."""
    return np.concatenate([np.flatnonzero(trajectory == t) for t, times in enumerate(draw) for _ in range(int(times))])


def test_intervals_are_those_of_rows_drawn_one_replicate_at_a_time() -> None:
    """The slow twin: copy the rows of the drawn trajectories, compute with scikit-learn, take percentiles."""
    frame, bootstrap = make_test_frame(8), Bootstrap(replicates=60, confidence=0.8)
    scored, other = make_scored(frame), make_scored(frame, seed=1, noise=3.0)
    trajectory = frame.trajectory
    draws = draw_trajectories(np.arange(8), bootstrap)
    areas, briers, pooled, area_gains, pair_gains = [], [], [], [], []
    group = grouping(frame, "state", True)
    for draw in draws:
        rows = drawn_rows(draw, trajectory)
        unsafe = frame.unsafe[rows]
        areas.append(roc_auc_score(unsafe, scored.unsafe_mean[rows]))
        area_gains.append(areas[-1] - roc_auc_score(unsafe, other.unsafe_mean[rows]))
        briers.append(brier_score_loss(unsafe, scored.unsafe_mean[rows]))
        credits = []
        for predicted in (scored.predicted_harm, other.predicted_harm):
            counts = count_pairs(predicted, frame.harm, group, trajectory, 0.02)
            credits.append(sum(counts.credit[t] * n for t, n in enumerate(draw)) / (draw @ counts.pairs))
        pooled.append(credits[0])
        pair_gains.append(credits[0] - credits[1])
    report = evaluate(frame, scored.predicted_harm, scored.unsafe_mean, 0.02, bootstrap)
    mine, baseline = (count_pairs(each.predicted_harm, frame.harm, group, trajectory, 0.02) for each in (scored, other))
    gain = auroc_gain(scored.unsafe_mean, other.unsafe_mean, frame.unsafe, trajectory, "all", draws, bootstrap)
    for metric, values in (
        (report.unsafe_auroc, areas),
        (report.brier, briers),
        (report.state_pairs, pooled),
        (gain, area_gains),
        (pair_gain(mine, baseline, "pairs", draws, bootstrap), pair_gains),
    ):
        assert (metric.low, metric.high) == pytest.approx(np.quantile(values, [0.1, 0.9]), abs=1e-9)
    assert gain.value == pytest.approx(
        roc_auc_score(frame.unsafe, scored.unsafe_mean) - roc_auc_score(frame.unsafe, other.unsafe_mean)
    )


def test_a_mean_over_nothing_is_not_a_number_and_null_in_json() -> None:
    draws = draw_trajectories(np.arange(3), Bootstrap(replicates=20))
    found = ratio_metric("rate", "nothing", "none", np.zeros(3), np.zeros(3), draws, Bootstrap(replicates=20))
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    shown = found.to_json()
    assert (shown["value"], shown["low"], shown["support"]) == (None, None, 0)
    again = Metric.from_json(shown)
    assert math.isnan(again.high)
    assert again.name == "rate"
