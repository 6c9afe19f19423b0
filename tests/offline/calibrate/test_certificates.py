"""The bound on the unsafe rate: what it is in simple cases, and that it holds as often as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from drsr.decide.selection import select
from drsr.errors import SettingsError, SplitRefused
from drsr.offline.calibrate.certificates import (
    GroupCounts,
    bound_at,
    calibrate_certified,
    certified_in_sequence,
    certify_cross_fitted,
    evidence_against,
    group_counts,
    threshold_grid,
    unsafe_rate_bound,
)
from drsr.offline.calibrate.search import OperatingPoint
from drsr.offline.calibrate.selection_path import SelectionPath, selection_path
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets
from tests.offline.frames import make_frame, make_scored, params, rows_of

PARAMS = params().calibrate


def counts(selected: list[int], unsafe: list[int]) -> GroupCounts:
    return GroupCounts(np.array(selected), np.array(unsafe))


def test_without_evidence_nothing_is_ruled_out() -> None:
    assert unsafe_rate_bound(counts([0, 0, 0], [0, 0, 0]), 3, 0.05) == 1.0
    assert evidence_against(0.1, counts([0, 0], [0, 0]), 3) == 1.0


def test_more_evidence_a_lower_bound() -> None:
    bounds = [unsafe_rate_bound(counts([1] * n, [0] * n), 1, 0.05) for n in (10, 50, 200, 1000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.01
    # Not below the exact binomial bound (Clopper-Pearson) for independent states, and not far above it.
    for n, bound in zip((10, 50, 200, 1000), bounds, strict=True):
        exact = 1 - 0.05 ** (1 / n)
        assert exact < bound < 1.8 * exact + 0.01
    worse = unsafe_rate_bound(counts([1] * 200, [1] * 10 + [0] * 190), 1, 0.05)
    assert 0.05 < worse < 0.12
    assert unsafe_rate_bound(counts([1] * 200, [0] * 200), 1, 0.005) > bounds[2]


def test_the_order_of_trajectories_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    selected = generator.integers(0, 4, 60)
    unsafe = generator.binomial(selected, 0.1)
    order = generator.permutation(60)
    first = unsafe_rate_bound(GroupCounts(selected, unsafe), 3, 0.05)
    assert unsafe_rate_bound(GroupCounts(selected[order], unsafe[order]), 3, 0.05) == pytest.approx(first)


def draw(generator: np.random.Generator, trajectories: int) -> GroupCounts:
    """Trajectories whose states fail together, and that are selected from more often when they fail."""
    bad = generator.random(trajectories) < 0.08
    selected = np.where(bad, 3, generator.integers(0, 4, trajectories))
    return GroupCounts(selected, np.where(bad, generator.integers(1, 4, trajectories), 0))


def ruled_out(rate: float, found: GroupCounts, most_states: int, delta: float) -> bool:
    """Whether the bound is at or below this rate, without searching for it."""
    return evidence_against(rate, found, most_states) >= 1 / delta


MOST_MISSES = 78
"""Of 600 tries at a level of 0.1: more than this have a chance below 1 % even where the level is just met."""


def test_the_bound_holds_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    population = draw(generator, 400_000)
    rate = population.unsafe.sum() / population.selected.sum()
    for trajectories in (25, 120):
        missed = sum(ruled_out(rate, draw(generator, trajectories), 3, 0.1) for _ in range(600))
        assert missed <= MOST_MISSES
    some = [draw(generator, 400) for _ in range(20)]
    bounds = [unsafe_rate_bound(found, 3, 0.1) for found in some]
    assert [bound <= rate for bound in bounds] == [ruled_out(rate, found, 3, 0.1) for found in some]
    assert rate < np.mean(bounds) < 1.8 * rate  # and it is not merely the trivial bound


def test_ignoring_trajectories_would_break_it() -> None:
    """The simulation can tell: ten states that always fail together, counted as if each were a trajectory."""
    generator = np.random.default_rng(7)
    grouped = alone = 0
    for _ in range(600):
        bad = generator.random(40) < 0.2
        grouped += ruled_out(0.2, GroupCounts(np.full(40, 10), 10 * bad), 10, 0.1)
        alone += ruled_out(0.2, GroupCounts(np.ones(400, dtype=np.int64), np.repeat(bad, 10)), 1, 0.1)
    assert grouped <= MOST_MISSES < alone


def test_a_sequence_stops_at_its_first_failure() -> None:
    passes = np.array([True, True, False, True, True, True, False, True, True])
    assert certified_in_sequence(passes, 1).tolist() == [True, True] + [False] * 7
    assert certified_in_sequence(passes, 3).tolist() == [True, True, False, True, True, True, False, False, False]
    assert not certified_in_sequence(~passes, 1).any()
    assert certified_in_sequence(np.array([], dtype=bool), 3).tolist() == []


def test_the_search_is_paid_for() -> None:
    """Nine nested policies, all with a true rate just above the limit: any certificate at all is an error."""
    generator = np.random.default_rng(3)
    limit, delta, starts, errors = 0.2, 0.2, 3, 0
    coverages = np.linspace(0.3, 1.0, 9)
    for _ in range(600):
        needs, unsafe = generator.random(80), generator.random(80) < 0.21
        passes = [
            ruled_out(limit, GroupCounts(needs < coverage, (needs < coverage) & unsafe), 1, delta / starts)
            for coverage in coverages
        ]
        errors += bool(certified_in_sequence(np.array(passes), starts).any())
    assert errors <= 600 * delta + 2.3 * np.sqrt(600 * delta * (1 - delta))
    assert errors > 0  # errors do happen in this simulation, only not too often


def test_counts_by_trajectory() -> None:
    frame = make_frame("validation", 5)
    path = selection_path(make_scored(frame), 3, 0.0, 0.2)
    chosen = path.at(0.6)
    found = group_counts(frame, chosen)
    for trajectory in range(5):
        rows = [
            int(row) for state, row in enumerate(chosen) if row >= 0 and frame.state_trajectory[state] == trajectory
        ]
        assert found.selected[trajectory] == len(rows)
        assert found.unsafe[trajectory] == frame.unsafe[rows].sum()


def test_trials_of_one_task_are_one_draw() -> None:
    frame = make_frame("validation", 8, trials=4)
    chosen = selection_path(make_scored(frame), 3, 0.0, 0.2).at(0.6)
    found = group_counts(frame, chosen)
    assert len(found.selected) == 2
    assert found.selected.sum() == (chosen >= 0).sum()
    train, scored = make_scored(make_frame("train", 8, trials=4)), make_scored(frame)
    with pytest.raises(SettingsError, match="max_group_states is 3, a task here has 8 states"):
        calibrate_certified(train, scored, params().calibrate)


def test_the_bound_of_one_point() -> None:
    """The same counts, made by selecting in every state; tighter than a certificate, which pays for its search."""
    frame, calibrate = make_frame("validation", 60), params().calibrate
    scored = make_scored(frame)
    point = OperatingPoint(3, 0.5, 0.6, 0, 0.0, 0.0, 0.0)
    selected, unsafe = np.zeros((2, 60), dtype=np.int64)
    sets, rule = scored.proposed(0.5), point.rule(calibrate.removal_cap)
    for state, group in enumerate(frame.state_group):
        rows = np.flatnonzero(frame.state == state)
        choice = select(rows_of(sets, rows), int(frame.request_tokens[state]), rule).chosen
        if choice is not None:
            selected[group] += 1
            unsafe[group] += frame.unsafe[rows[choice]]
    assert 0 < unsafe.sum() < selected.sum()
    found = bound_at(scored, point, calibrate)
    assert found.rate == unsafe_rate_bound(GroupCounts(selected, unsafe), 3, 1 - calibrate.certified.confidence)
    assert unsafe.sum() / selected.sum() < found.rate < 1
    assert (found.confidence, found.most_states) == (0.95, 3)


def test_no_bound_where_a_task_has_more_states_than_allowed_for() -> None:
    scored = make_scored(make_frame("validation", 8, trials=4))
    found = bound_at(scored, OperatingPoint(3, 0.0, 0.6, 0, 0.0, 0.0, 0.0), params().calibrate)
    assert (found.rate, found.most_states, found.largest) == (None, 3, 8)


def test_the_grid_is_where_so_many_states_prune() -> None:
    path = SelectionPath(
        states=4, state=np.array([0, 0, 1, 3]), row=np.arange(4), threshold=np.array([0.1, 0.4, 0.2, 0.3])
    )
    assert threshold_grid(path, (0.25, 0.5, 0.75, 1.0)).tolist() == [0.1, 0.2, 0.3]  # one state never prunes
    for coverage, threshold in zip((0.25, 0.5, 0.75), (0.1, 0.2, 0.3), strict=True):
        assert (path.at(threshold) >= 0).mean() == coverage


def test_a_good_scorer_is_certified_and_a_bad_one_abstains() -> None:
    train = make_scored(make_frame("train", 100, noise=0.0), noise=0.3)
    validation_frame = make_frame("validation", 150, noise=0.0)
    good = calibrate_certified(train, make_scored(validation_frame, 1, noise=0.3), PARAMS)
    assert good.calibration.chosen is not None
    assert good.calibration.chosen.unsafe_rate <= 0.10
    chosen = good.chosen
    assert chosen is not None
    assert chosen.risk_threshold == good.calibration.chosen.risk_threshold
    assert chosen.certified
    assert chosen.unsafe / chosen.selected < chosen.unsafe_bound <= 0.10
    assert len(good.tried) == len(PARAMS.certified.coverages) == len(good.calibration.table)
    for row, policy in enumerate(good.tried):  # everything tried is in the table, certified or not
        assert policy.risk_threshold == good.calibration.table.risk_threshold[row]
        assert (policy.selected, policy.unsafe) == (
            good.calibration.table.selected[row],
            good.calibration.table.unsafe[row],
        )
    assert good.confidence == 0.95
    bad = calibrate_certified(train, make_scored(validation_frame, 1, noise=100.0), PARAMS)
    assert bad.calibration.abstains_always
    assert bad.chosen is None
    assert "THE POLICY ABSTAINS ALWAYS: none of 9 thresholds could be certified" in bad.calibration.explanation


def test_more_policies_cost_confidence() -> None:
    train, validation = make_scored(make_frame("train", 40)), make_scored(make_frame("validation", 80), 1)
    more = replace(PARAMS, certified=replace(PARAMS.certified, uncertainty_coefficients=(0.0, 0.5, 1.0, 2.0)))
    one, four = (calibrate_certified(train, validation, given) for given in (PARAMS, more))
    assert len(four.tried) == 4 * len(one.tried)
    for cheap, dear in zip(one.tried, four.tried, strict=False):
        assert cheap.risk_threshold == dear.risk_threshold
        assert cheap.unsafe_bound < dear.unsafe_bound


def test_splits_are_not_exchanged() -> None:
    train, validation = make_scored(make_frame("train", 4)), make_scored(make_frame("validation", 4))
    with pytest.raises(SplitRefused):
        calibrate_certified(validation, train, PARAMS)


TASKS, NUMBERS, STATES = 300, 8, 2
LOOSER = replace(PARAMS, max_unsafe_rate=0.2, certified=replace(PARAMS.certified, max_unsafe_rate=0.2))
"""So that 300 tasks certify something, with a true rate close to what is allowed."""


def simulated_tasks(generator: np.random.Generator, tasks: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Exchangeable tasks: features (tasks, states, numbers) of which one counts, and states that fail together."""
    features = generator.normal(size=(tasks, STATES, NUMBERS))
    task = 0.7 * generator.normal(size=(tasks, 1))
    chance = 1 / (1 + np.exp(2.2 - 1.6 * features[:, :, 0] - task))
    return features, generator.random((tasks, STATES)) < chance


def fitted_weights(features: NDArray[np.float64], unsafe: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Least squares on all numbers, most of which are noise: fold members and final members differ."""
    rows = np.concatenate([features.reshape(-1, NUMBERS), np.ones((unsafe.size, 1))], axis=1)
    weights: NDArray[np.float64] = np.linalg.lstsq(rows, unsafe.ravel().astype(np.float64), rcond=None)[0]
    return weights


def unsafe_scores(features: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = np.clip(features @ weights[:-1] + weights[-1], 0.0, 1.0)
    return scores


def simulated_frame(unsafe: NDArray[np.bool_]) -> TrainingFrame:
    """One candidate and one set per state."""
    states = unsafe.size
    tasks = np.repeat(np.arange(len(unsafe)), STATES)
    return TrainingFrame(
        split="train",
        layout_hash="layout",
        labeler="labeler",
        state_ids=tuple(f"state {number}" for number in range(states)),
        trajectory_ids=tuple(f"task {task}" for task in tasks),
        group_ids=tuple(f"task {task}" for task in tasks),
        request_tokens=np.full(states, 1_000),
        candidate_counts=np.ones(states, dtype=np.int64),
        candidate_savings=np.full((states, 4), 100) * (np.arange(4) < 1),
        features=np.zeros((states, 4, 1), dtype=np.float32),
        state=np.arange(states),
        mask=np.ones(states, dtype=np.int64),
        direct_saving=np.full(states, 100),
        protocol_safe=np.ones(states, dtype=np.bool_),
        harm=np.where(unsafe.ravel(), 0.03, 0.0),
        unsafe=unsafe.ravel(),
    )


def test_a_cross_fitted_certificate_holds_on_simulated_exchangeable_tasks() -> None:
    """A certificate fails where the final members, on new tasks, select more unsafe sets than it allows."""
    generator = np.random.default_rng(17)
    wrong, given, simulations = 0, 0, 60
    for _ in range(simulations):
        features, unsafe = simulated_tasks(generator, TASKS)
        fold = np.arange(TASKS) % 5
        scores = np.empty(unsafe.shape)
        for number in range(5):
            weights = fitted_weights(features[fold != number], unsafe[fold != number])
            scores[fold == number] = unsafe_scores(features[fold == number], weights)
        flat = scores.ravel()
        scored = ScoredSets(simulated_frame(unsafe), flat, flat, np.zeros_like(flat))
        chosen = certify_cross_fitted(scored, LOOSER).chosen
        if chosen is None:
            continue
        given += 1
        assert chosen.unsafe_bound <= 0.2
        new, truth = simulated_tasks(generator, 4_000)
        selected = unsafe_scores(new, fitted_weights(features, unsafe)) <= chosen.risk_threshold
        wrong += bool(truth[selected].mean() > 0.2)
    assert given >= simulations // 4  # otherwise the test would show nothing
    assert wrong <= 0.05 * simulations + 2  # five in a hundred, and what so few simulations scatter


def test_a_cross_fitted_certificate_wants_the_largest_task_to_be_known_beforehand() -> None:
    frame = make_frame("train", 8, trials=4)
    with pytest.raises(SettingsError, match="max_group_states"):
        certify_cross_fitted(make_scored(frame), PARAMS)
