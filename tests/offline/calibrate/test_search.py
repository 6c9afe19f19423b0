"""Calibration against a twin that selects anew for every policy, and its constraints and ties one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.decide.selection import SelectionRule, select
from drsr.errors import SplitRefused
from drsr.offline.calibrate.operating_curve import operating_curve, uncertainty_sensitivity
from drsr.offline.calibrate.search import UNIT, SearchTable, calibrate, choose, incomplete_states, search
from drsr.offline.params import CalibrateParams
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.scored_sets import ScoredSets
from tests.offline.frames import make_frame, make_scored, params, rows_of

PARAMS = params().calibrate
FRAME = make_frame("validation", 8, saving_step=50)


class Outcome:
    """What one policy does, by selecting in every state."""

    def __init__(self, scored: ScoredSets[TrainingFrame], rule: SelectionRule, coefficient: float) -> None:
        frame, sets = scored.frame, scored.proposed(coefficient)
        chosen = []
        for state in range(len(frame.state_ids)):
            rows = np.flatnonzero(frame.state == state)
            found = select(rows_of(sets, rows), int(frame.request_tokens[state]), rule)
            if found.chosen is not None:
                chosen.append(int(rows[found.chosen]))
        self.selected = len(chosen)
        self.unsafe = int(frame.unsafe[chosen].sum())
        self.harms = frame.harm[chosen]
        self.removed = frame.direct_saving[chosen] / frame.request_tokens[frame.state[chosen]]
        self.harm_units = sum(round(float(harm) / UNIT) for harm in self.harms)
        self.removal_units = sum(round(float(part) / UNIT) for part in self.removed)


def slow_choice(scored: ScoredSets[TrainingFrame], calibrate_params: CalibrateParams) -> tuple | None:
    """Every (K, beta, tau), one after another; the best by the stated order."""
    best = None
    for cardinality in calibrate_params.max_cardinalities:
        for coefficient in calibrate_params.uncertainty_coefficients:
            scores = scored.unsafe_score(coefficient)[scored.frame.cardinality <= cardinality]
            for threshold in sorted(set(scores.tolist())):
                rule = SelectionRule(cardinality, calibrate_params.removal_cap, threshold)
                found = Outcome(scored, rule, coefficient)
                if not found.selected:
                    continue
                rate, harm = found.unsafe / found.selected, found.harm_units * UNIT / found.selected
                if rate <= calibrate_params.max_unsafe_rate and harm <= calibrate_params.max_mean_harm:
                    key = (-found.removal_units, rate, harm, cardinality, coefficient, threshold)
                    best = key if best is None else min(best, key)
    return best


@settings(max_examples=6)
@given(seed=st.integers(0, 1000), levels=st.sampled_from([8, 25]))
def test_the_choice_is_the_slow_twins(seed: int, levels: int) -> None:
    scored = make_scored(FRAME, seed, levels=levels)
    found = calibrate(scored, PARAMS)
    expected = slow_choice(scored, PARAMS)
    if expected is None:
        assert found.chosen is None
        return
    assert found.chosen is not None
    assert (
        found.chosen.max_cardinality,
        found.chosen.uncertainty_coefficient,
        found.chosen.risk_threshold,
    ) == expected[3:]
    assert (found.chosen.unsafe_rate, found.chosen.mean_harm) == expected[1:3]


def test_every_row_of_the_table_is_the_slow_twins() -> None:
    scored = make_scored(FRAME, 1)
    table = search(scored, replace(PARAMS, uncertainty_coefficients=(0.0, 1.0)))
    observed = [
        len(np.unique(scored.unsafe_score(beta)[FRAME.cardinality <= k])) for k in (2, 3) for beta in (0.0, 1.0)
    ]
    assert len(table) == sum(observed)
    for row in range(0, len(table), 3):
        rule = SelectionRule(int(table.max_cardinality[row]), 0.2, float(table.risk_threshold[row]))
        found = Outcome(scored, rule, float(table.uncertainty_coefficient[row]))
        assert (table.selected[row], table.unsafe[row]) == (found.selected, found.unsafe)
        assert (table.harm_units[row], table.removal_units[row]) == (found.harm_units, found.removal_units)
        assert table.mean_removal[row] == pytest.approx(found.removed.sum() / len(FRAME.state_ids), abs=1e-11)
        if found.selected:
            assert table.mean_harm[row] == pytest.approx(found.harms.mean(), abs=1e-11)
        else:
            assert math.isnan(table.unsafe_rate[row])


def test_the_chosen_policy_keeps_its_promises() -> None:
    scored = make_scored(make_frame("validation", 60), noise=0.5)
    found = calibrate(scored, PARAMS)
    assert found.chosen is not None
    assert not found.abstains_always
    assert found.rule(PARAMS) == SelectionRule(found.chosen.max_cardinality, 0.2, found.chosen.risk_threshold)
    outcome = Outcome(scored, found.rule(PARAMS), found.chosen.uncertainty_coefficient)
    assert outcome.selected == found.chosen.selected > 20
    assert outcome.unsafe / outcome.selected <= 0.10
    assert outcome.harms.mean() <= 0.02
    assert outcome.removed.max() <= 0.20
    assert outcome.removed.sum() / 120 == pytest.approx(found.chosen.mean_removal)
    assert f"prunes {outcome.selected} of 120 states" in found.explanation


def two_sources(frame: TrainingFrame, of_first: int) -> TrainingFrame:
    """The same states as if the first so many were of another source than the rest."""
    names = frame.trajectory_ids
    return replace(
        frame, trajectory_ids=tuple(f"{'large' if n < of_first else 'small'}/{name}" for n, name in enumerate(names))
    )


def test_a_balance_keeps_the_limit_for_sources_of_few_states_too() -> None:
    frame = two_sources(make_frame("validation", 60), 108)
    # Scores of the small source say nothing, so that its sets pass wherever those of the large one do.
    scored = make_scored(frame, noise=0.3)
    blind = frame.state >= 108
    scored.unsafe_mean[blind] = np.random.default_rng(5).random(int(blind.sum())) * 0.3
    plain, balanced = (calibrate(scored, replace(PARAMS, source_balance=balance)) for balance in (0.0, 1.0))
    assert plain.chosen is not None
    assert balanced.chosen is not None
    assert balanced.chosen.mean_removal < plain.chosen.mean_removal
    rates = []
    for found in (plain, balanced):
        assert found.chosen is not None
        rule, coefficient = found.rule(PARAMS), found.chosen.uncertainty_coefficient
        unsafe, selected = np.zeros(2), np.zeros(2)
        sets = scored.proposed(coefficient)
        for state in range(len(frame.state_ids)):
            rows = np.flatnonzero(frame.state == state)
            choice = select(rows_of(sets, rows), int(frame.request_tokens[state]), rule).chosen
            if choice is not None:
                selected[int(state >= 108)] += 1
                unsafe[int(state >= 108)] += frame.unsafe[rows[choice]]
        weights = np.array([120 / (2 * 108), 120 / (2 * 12)])
        rates.append(float(weights @ unsafe / (weights @ selected)))
    assert rates[0] > 0.10 >= rates[1] - 1e-3  # weights are rounded to a thousandth
    assert "with sources weighted" in balanced.explanation
    assert "with sources weighted" not in plain.explanation


def table_of(*rows: tuple[int, float, float, int, int, float, float]) -> SearchTable:
    """(K, beta, tau, selected, unsafe, harm sum, removal sum) by row, over ten states."""
    k, beta, tau, selected, unsafe, harm, removal = (np.array(column) for column in zip(*rows, strict=True))
    harm_units, removal_units = (np.rint(value / UNIT).astype(np.int64) for value in (harm, removal))
    sums = (selected, unsafe, harm_units, removal_units, selected, unsafe)
    return SearchTable(10, k, beta.astype(float), tau, *sums)


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 1, 0.1, 1.1)], 1),  # removes more
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 2, 0.1, 1.1)], 0),  # too often unsafe
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 1, 0.21, 1.1)], 0),  # too harmful
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 0, 0.1, 1.0)], 1),  # tie: lower unsafe rate
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 1, 0.0, 1.0)], 1),  # tie: lower harm
        ([(3, 0, 0.1, 10, 1, 0.0, 1.0), (3, 0, 0.2, 10, 0, 0.1, 1.0)], 1),  # the unsafe rate before the harm
        ([(3, 0, 0.1, 1, 0, 0.0, 0.1), (3, 0, 0.2, 1, 1, 0.0, 0.2)], 0),  # one set selected is a policy
        ([(3, 0, 0.1, 10, 1, 0.1, 1.0), (2, 1, 0.2, 10, 1, 0.1, 1.0)], 1),  # tie: smaller K
        ([(3, 1, 0.1, 10, 1, 0.1, 1.0), (3, 0, 0.2, 10, 1, 0.1, 1.0)], 1),  # tie: smaller beta
        ([(3, 0, 0.2, 10, 1, 0.1, 1.0), (3, 0, 0.1, 10, 1, 0.1, 1.0)], 1),  # tie: smaller tau
        ([(3, 0, 0.1, 10, 1, -0.5, 1.0), (3, 0, 0.0, 0, 0, 0.0, 0.0)], 0),  # selecting nothing is no policy
    ],
)
def test_constraints_and_ties(rows: list[tuple], chosen: int) -> None:
    for order in ([0, 1], [1, 0]):
        table = table_of(*(rows[place] for place in order))
        found = choose(table, PARAMS, 0).chosen
        assert found is not None
        assert found.risk_threshold == rows[chosen][2]


def test_nothing_admissible_abstains_always_and_says_so() -> None:
    frame = make_frame("validation", 6)
    harmful = replace(frame, harm=np.where(frame.mask == 15, frame.harm - 1, 0.5), unsafe=frame.mask != 15)
    found = calibrate(make_scored(harmful), PARAMS)
    assert found.chosen is None
    assert found.abstains_always
    assert "THE POLICY ABSTAINS ALWAYS" in found.explanation
    assert "lowest unsafe rate is 1.000" in found.explanation
    rule = found.rule(PARAMS)
    assert rule.risk_threshold == -math.inf
    assert Outcome(make_scored(harmful), rule, 0.0).selected == 0
    assert len(found.table) > 0  # what was tried is kept


def test_no_set_fits_the_cap() -> None:
    found = calibrate(make_scored(FRAME), replace(PARAMS, removal_cap=1e-6))
    assert found.chosen is None
    assert "structural constraints" in found.explanation


def test_only_validation_chooses() -> None:
    with pytest.raises(SplitRefused, match="not on train"):
        calibrate(make_scored(make_frame("train", 3)), PARAMS)


def test_states_with_missing_labels_are_counted() -> None:
    assert incomplete_states(FRAME) == 0
    kept = ~((FRAME.state == 3) & (FRAME.mask == 2))
    columns = ("state", "mask", "direct_saving", "protocol_safe", "harm", "unsafe")
    assert incomplete_states(replace(FRAME, **{name: getattr(FRAME, name)[kept] for name in columns})) == 1


def test_the_operating_curve_and_the_sensitivity_come_from_the_table() -> None:
    scored = make_scored(make_frame("validation", 40), noise=0.5)
    found = calibrate(scored, PARAMS)
    curve = operating_curve(found.table, 3, 0.0)
    assert (np.diff(curve.risk_threshold) > 0).all()
    assert (np.diff(curve.coverage) >= 0).all()
    assert (np.diff(curve.mean_removal) >= 0).all()  # a higher threshold never removes less
    rows = uncertainty_sensitivity(found.table, PARAMS)
    assert [(row.max_cardinality, row.uncertainty_coefficient) for row in rows] == [
        (k, beta) for k in (2, 3) for beta in (0.0, 0.25, 0.5, 1.0, 2.0)
    ]
    assert max(row.best.mean_removal for row in rows if row.best) == found.chosen.mean_removal  # type: ignore[union-attr]
