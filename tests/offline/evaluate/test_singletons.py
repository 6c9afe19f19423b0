"""Singleton aggregation: exact where harm adds up, and as bad as it must be where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from drsr.offline.evaluate.singletons import RULES, aggregate, evaluate_rules, singleton_harms
from drsr.offline.train.metrics import Bootstrap
from tests.offline.frames import make_frame

QUICK = Bootstrap(replicates=200)


def test_the_rules_are_what_they_say() -> None:
    frame = make_frame("train", 4)
    alone = singleton_harms(frame, frame.harm)
    guesses = {rule: aggregate(frame, alone, rule) for rule in RULES}
    for row in range(len(frame)):
        members = [place for place in range(4) if frame.mask[row] >> place & 1]
        own = [frame.harm[(frame.state == frame.state[row]) & (frame.mask == 1 << place)].item() for place in members]
        expected = {"sum": sum(own), "mean": sum(own) / len(own), "max": max(own), "min": min(own)}
        for rule, value in expected.items():
            assert guesses[rule][row] == pytest.approx(value)
    assert set(RULES) == {"sum", "mean", "max", "min"}


def test_a_member_without_a_label_leaves_the_sets_unknown() -> None:
    frame = make_frame("train", 4)
    alone = singleton_harms(frame, frame.harm)
    alone[0, 1] = np.nan
    guess = aggregate(frame, alone, "sum")
    touched = (frame.state == 0) & (frame.mask & 2 > 0)
    assert np.isnan(guess[touched]).all()
    assert not np.isnan(guess[~touched]).any()


def test_sums_are_right_where_harm_adds_up() -> None:
    frame = make_frame("train", 30, noise=0.0)
    rules = {row.rule: row.metrics for row in evaluate_rules(frame, frame.harm, 0.02, QUICK)}
    assert [metric.value for metric in rules["sum"]] == [1.0, 1.0, 1.0]
    assert rules["mean"].equal_cardinality.value == 1.0  # at equal cardinality the mean orders as the sum does
    assert rules["min"].any_cardinality.value < 0.95
    assert "any cardinality" in rules["sum"].any_cardinality.grouping
    assert rules["sum"].unsafe_auroc.support == int((frame.cardinality > 1).sum())


def test_predicted_singletons_go_the_same_way() -> None:
    frame = make_frame("train", 30, noise=0.0)
    noisy = frame.harm + np.random.default_rng(0).normal(0, 0.05, len(frame))
    measured, predicted = (
        evaluate_rules(frame, harm, 0.02, QUICK)[0].metrics.any_cardinality for harm in (frame.harm, noisy)
    )
    assert 0.5 < predicted.value < measured.value
    assert predicted.low < predicted.value < predicted.high
