"""A cascade reads where the light policy doubts, keeps to the limits, and is judged by thresholds of other tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cascade
from benchmarks.cascade import Thresholds, best_thresholds, measured, perfect_reader, shown, steps
from drsr.offline.calibrate.search import source_weights
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.params import CalibrateParams
from drsr.offline.train.metrics import Bootstrap
from tests.offline.frames import make_frame, make_scored, params

FRAME = make_frame("train", 40, trials=2)
LIGHT, FULL = make_scored(FRAME, seed=1, noise=2.0), make_scored(FRAME, seed=2, noise=0.5)
PATHS = (selection_path(LIGHT, 3, 0.0, 0.2), selection_path(FULL, 3, 0.0, 0.2))
LIMITS = replace(params().calibrate, max_unsafe_rate=0.1, source_balance=0.5)
PARAMS = replace(params(), train=replace(params().train, folds=4), calibrate=LIMITS)


def test_the_light_policy_decides_alone_where_both_thresholds_say_the_same() -> None:
    light, full = PATHS
    thresholds = Thresholds(0.2, 0.6, 0.4)
    found = cascade.cascade(light, full, thresholds)
    strict, loose, other = light.at(0.2), light.at(0.6), full.at(0.4)
    assert 0 < found.read.sum() < len(found.read)
    for state in range(light.states):
        assert found.read[state] == (strict[state] != loose[state])
        assert found.row[state] == (other if found.read[state] else strict)[state]


def plain_best(limits: CalibrateParams, most_read: float) -> tuple[float, float]:
    """Removal and part read of the best thresholds, by trying all of them one by one."""
    light, full = PATHS
    weights, best = source_weights(FRAME, limits), (-1.0, 0.0)
    for strict in steps(light):
        for loose in (each for each in steps(light) if each >= strict):
            for tau in steps(full):
                chosen = cascade.cascade(light, full, Thresholds(strict, loose, tau))
                states = [state for state, row in enumerate(chosen.row) if row >= 0]
                rows = chosen.row[states]
                part = float(chosen.read.mean())
                if not states or part > most_read:
                    continue
                unsafe = float(FRAME.unsafe[rows].mean())
                weighted = float((FRAME.unsafe[rows] * weights[states]).sum() / weights[states].sum())
                if max(unsafe, weighted) > limits.max_unsafe_rate or FRAME.harm[rows].mean() > limits.max_mean_harm:
                    continue
                removed = np.rint(FRAME.direct_saving[rows] / FRAME.request_tokens[states] * 2**40).sum()
                best = max(best, (float(removed) / light.states, -part))
    return best


@pytest.mark.parametrize("most_read", [0.0, 0.3, 1.0])
def test_the_best_thresholds_are_those_of_the_plainest_search(
    most_read: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade, "STEPS", 9)
    found = best_thresholds(*PATHS, FRAME, LIMITS, most_read)
    assert found is not None
    chosen = cascade.cascade(*PATHS, found)
    outcome = cascade.Outcomes.of(FRAME, LIMITS)
    removed, part = float(outcome.removed[chosen.row].mean()), float(chosen.read.mean())
    assert part <= most_read
    assert (removed, -part) == plain_best(LIMITS, most_read)


def test_nothing_is_admissible_under_impossible_limits() -> None:
    assert best_thresholds(*PATHS, FRAME, replace(LIMITS, max_mean_harm=-9.0), 1.0) is None


def test_methods_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade, "STEPS", 16)
    found = {each.name: each.chosen for each in measured(LIGHT, FULL, PARAMS, most_read=(0.0, 0.5))}
    assert not found["light alone"].read.any()
    assert not found["cascade, at most 0% read"].read.any()
    assert found["full alone"].read.all()
    assert 0 < found["cascade, at most 50% read"].read.mean() < 0.7  # chosen on other folds, so it may exceed a half
    removed = {name: float(cascade.removal(FRAME, chosen.row).mean()) for name, chosen in found.items()}
    assert removed["perfect reader, at most 50% read"] > removed["light alone"] > 0
    table = shown(FRAME, measured(LIGHT, FULL, PARAMS, most_read=(0.5,)), Bootstrap(replicates=50))
    assert "80 states of 20 tasks" in table
    assert f"{removed['light alone']:.2%}" in table


def test_a_state_without_an_admissible_point_is_left_alone() -> None:
    impossible = replace(PARAMS, calibrate=replace(LIMITS, max_mean_harm=-9.0))
    for each in measured(LIGHT, FULL, impossible, most_read=(1.0,)):
        assert (each.chosen.row == -1).all()
    assert "none" in shown(FRAME, measured(LIGHT, FULL, impossible, most_read=(1.0,)), Bootstrap(replicates=5))


def test_scores_of_other_states_are_refused() -> None:
    with pytest.raises(ValueError, match="same states"):
        measured(LIGHT, make_scored(make_frame("train", 39, trials=2)), PARAMS)


def test_a_perfect_reader_knows_the_labels() -> None:
    assert np.array_equal(perfect_reader(LIGHT).unsafe_score(1.0), FRAME.unsafe)
