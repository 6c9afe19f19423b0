"""The study of ablations: each table against its definition, on examples whose rule is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from drsr.decide.selection import SelectionRule, select
from drsr.offline.evaluate.ablation_study import SCORED_MISMATCHED, Gains, Missing, ScorerRow, StudyInputs, study
from drsr.offline.train.ablations import ABLATIONS, find_ablation, trained_as
from drsr.offline.train.fitting import train_scorer
from drsr.offline.train.metrics import Bootstrap, auroc
from drsr.offline.train.scored_sets import score_frame
from drsr.scorer.ensemble import Ensemble
from tests.offline.frames import make_frame, make_test_frame, params, rows_of

GROUPS = ["attention", "structural", "structural", "hidden", "projection", "projection"]
"""The rule of the frames looks at column 0 alone."""
NAMES = ("full", "no-pair-pooling", "structural-only", "mismatched-state")
QUICK = Bootstrap(replicates=200)


@pytest.fixture(scope="module")
def ensembles() -> dict[str, Ensemble]:
    train, validation = make_frame("train", 30), make_frame("validation", 14)
    few = replace(params().train, max_epochs=40, seeds=(11, 29))
    return {
        name: train_scorer(train, validation, few, ablation=find_ablation(name), column_groups=GROUPS).ensemble
        for name in NAMES
    }


@pytest.fixture(scope="module")
def inputs(ensembles: dict[str, Ensemble]) -> StudyInputs:
    return StudyInputs(
        examples=make_test_frame(20),
        validation=make_frame("validation", 14),
        ensembles=ensembles,
        missing=[Missing("hidden-only", "not now")],
        column_groups=GROUPS,
        meaningful_gap=0.02,
        calibrate=params().calibrate,
        bootstrap=QUICK,
    )


def gains(row: ScorerRow) -> Gains:
    assert row.gains is not None
    return row.gains


def test_every_scorer_is_a_row_and_the_full_one_is_the_baseline(inputs: StudyInputs) -> None:
    found = study(inputs)
    assert (found.split, found.states, found.trajectories) == ("test", 40, 20)
    assert [row.name for row in found.scorers] == list(NAMES)
    assert found.missing == [Missing("hidden-only", "not now")]
    full = found.scorers[0]
    assert full.gains is None
    scored = score_frame(inputs.ensembles["full"], inputs.examples)
    assert full.metrics.unsafe_auroc.value == pytest.approx(auroc(scored.unsafe_mean, inputs.examples.unsafe))
    for row in found.scorers[1:]:
        pairs, area = gains(row)
        assert pairs.value == pytest.approx(row.metrics.state_pairs.value - full.metrics.state_pairs.value)
        assert area.value == pytest.approx(row.metrics.unsafe_auroc.value - full.metrics.unsafe_auroc.value)
        assert pairs.low <= pairs.value <= pairs.high
        assert area.low <= area.value <= area.high


def test_without_the_column_that_matters_nothing_is_left(inputs: StudyInputs) -> None:
    rows = {row.name: row for row in study(inputs).scorers}
    assert rows["full"].metrics.unsafe_auroc.value > 0.9
    assert gains(rows["structural-only"]).unsafe_auroc.high < -0.1  # the interval itself says that it is worse
    assert abs(gains(rows["no-pair-pooling"]).unsafe_auroc.value) < 0.1  # harms add up here: pairs are not needed


def test_paired_intervals_are_narrower_than_the_difference_of_two(inputs: StudyInputs) -> None:
    rows = {row.name: row for row in study(inputs).scorers}
    gain, mine, full = (
        gains(rows["no-pair-pooling"]).unsafe_auroc,
        rows["no-pair-pooling"].metrics.unsafe_auroc,
        rows["full"].metrics.unsafe_auroc,
    )
    assert gain.high - gain.low < (mine.high - mine.low) + (full.high - full.low)


def test_singleton_rules_measured_and_predicted_beside_the_scorer(inputs: StudyInputs) -> None:
    rows = study(inputs).singletons
    assert [(row.rule, row.singletons) for row in rows] == [
        ("the scorer itself", "none needed"),
        *((rule, "measured") for rule in ("sum", "mean", "max", "min")),
        *((rule, "predicted") for rule in ("sum", "mean", "max", "min")),
    ]
    assert rows[1].metrics.any_cardinality.value > 0.99  # harms add up, so the sum of measured singletons is right
    assert (
        rows[1].metrics.any_cardinality.value
        >= rows[5].metrics.any_cardinality.value
        > rows[8].metrics.any_cardinality.value
    )  # sum, then the minimum
    supports = {row.metrics.unsafe_auroc.support for row in rows}
    assert supports == {int((inputs.examples.cardinality > 1).sum())}  # all on the same sets


def test_own_relations_against_those_of_another_decision(inputs: StudyInputs) -> None:
    matched, scored_only, both = study(inputs).matching
    assert (matched.name, scored_only.name, both.name) == ("full", SCORED_MISMATCHED, "mismatched-state")
    assert matched.metrics.state_pairs.value > 0.85
    for row in (scored_only, both):
        assert gains(row).state_pairs.high < 0  # column 0 makes the harm; that of another candidate says nothing


def test_policies_do_what_selecting_one_by_one_does(inputs: StudyInputs) -> None:
    found = {row.name: row for row in study(inputs).policies}
    assert list(found) == ["full", "no-pair-pooling", "no-abstention", "structural-only", "mismatched-state"]
    frame = inputs.examples
    scored = score_frame(inputs.ensembles["full"], frame)
    for name in ("full", "no-abstention"):
        row = found[name]
        harms, removed, unsafe = [], [], 0
        for state in range(len(frame.state_ids)):
            rows = np.flatnonzero(frame.state == state)
            sets = rows_of(scored.proposed(row.uncertainty_coefficient), rows)
            chosen = select(sets, int(frame.request_tokens[state]), row.rule).chosen
            if chosen is not None:
                harms.append(frame.harm[rows[chosen]])
                removed.append(frame.direct_saving[rows[chosen]] / frame.request_tokens[state])
                unsafe += int(frame.unsafe[rows[chosen]])
        rate, harm, pruned, removal = row.metrics
        assert rate.value == pytest.approx(unsafe / len(harms))
        assert harm.value == pytest.approx(np.mean(harms))
        assert pruned.value == pytest.approx(len(harms) / 40)
        assert removal.value == pytest.approx(sum(removed) / 40)
        assert removal.low <= removal.value <= removal.high
    assert found["no-abstention"].rule == SelectionRule(3, 0.2, math.inf)
    assert found["no-abstention"].metrics.unsafe_rate.value > found["full"].metrics.unsafe_rate.value
    assert not found["full"].abstains_always


def test_a_policy_that_abstains_always_prunes_nothing(inputs: StudyInputs) -> None:
    strict = replace(inputs.calibrate, max_mean_harm=-10.0)
    row = study(replace(inputs, calibrate=strict)).policies[0]
    assert row.abstains_always
    assert math.isnan(row.metrics.unsafe_rate.value)
    assert [row.metrics.pruned.value, row.metrics.mean_removal.value] == [0.0, 0.0]


def test_too_few_trajectories_to_exchange_states_leaves_that_row_out(inputs: StudyInputs) -> None:
    one = make_test_frame(1, states=3)
    found = study(replace(inputs, examples=one))
    assert "mismatched-state" not in [row.name for row in found.scorers]
    assert found.matching == []
    assert found.missing[-1].name == "mismatched-state"
    assert "too few" in found.missing[-1].why


def test_what_selects_otherwise_is_trained_once() -> None:
    for name, ablation in ABLATIONS.items():
        assert trained_as(ablation).name == ("full" if name == "no-abstention" else name)
