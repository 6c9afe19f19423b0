"""The feasible set and the choice in it, condition by condition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.decide.selection import (
    AbstentionReason,
    ProposedSets,
    SelectionRule,
    Standing,
    select,
    structurally_valid,
    verdicts,
)

RULE = SelectionRule(max_cardinality=3, removal_cap=0.20, risk_threshold=0.0740822119017442)


def sets(*rows: tuple[int, int, bool, float, float]) -> ProposedSets:
    """(cardinality, saving, protocol safe, unsafe score, predicted harm) by row."""
    size, saving, safe, score, harm = zip(*rows, strict=True)
    return ProposedSets(np.array(size), np.array(saving), np.array(safe), np.array(score), np.array(harm))


def test_the_largest_saving_within_the_threshold() -> None:
    found = select(sets((1, 50, True, 0.01, 0.0), (2, 120, True, 0.07, 0.0), (3, 180, True, 0.08, 0.0)), 1_000, RULE)
    assert found.chosen == 1
    assert found.reason is None
    assert found.feasible.tolist() == [True, True, False]


def test_money_goes_before_tokens_where_it_is_known() -> None:
    proposed = sets((1, 50, True, 0.01, 0.0), (2, 120, True, 0.07, 0.0))._replace(worth=np.array([0.2, 0.1]))
    found = select(proposed, 1_000, RULE)
    assert found.chosen == 0
    assert verdicts(proposed, 1_000, RULE, found) == [Standing.CHOSEN, Standing.SAVES_LESS]


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ([(1, 50, True, 0.05, 0.0), (1, 50, True, 0.04, 0.9)], 1),  # equal saving: lower unsafe score
        ([(1, 50, True, 0.05, 0.2), (1, 50, True, 0.05, 0.1)], 1),  # equal score too: lower predicted harm
        ([(2, 50, True, 0.05, 0.1), (1, 50, True, 0.05, 0.1)], 0),  # all equal: the earlier row
    ],
)
def test_ties(rows: list[tuple[int, int, bool, float, float]], chosen: int) -> None:
    assert select(sets(*rows), 1_000, RULE).chosen == chosen


@pytest.mark.parametrize(
    ("row", "feasible"),
    [
        ((1, 200, True, 0.0740822119017442, 0.0), True),  # both limits are inclusive
        ((1, 201, True, 0.0, 0.0), False),
        ((1, 0, True, 0.0, 0.0), False),
        ((4, 100, True, 0.0, 0.0), False),
        ((1, 100, False, 0.0, 0.0), False),
        ((1, 100, True, 0.0740822119017443, 0.0), False),
        ((1, 100, True, math.nan, 0.0), False),
    ],
)
def test_each_condition(row: tuple[int, int, bool, float, float], feasible: bool) -> None:
    assert (select(sets(row), 1_000, RULE).chosen == 0) is feasible


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(4, 10, True, 0.0, 0.0), (1, 10, False, 0.0, 0.0)], AbstentionReason.NO_VALID_SET),
        ([(1, 300, True, 0.0, 0.0), (1, 10, False, 0.0, 0.0)], AbstentionReason.OVER_REMOVAL_CAP),
        ([(1, 300, True, 0.0, 0.0), (1, 100, True, 0.5, 0.0)], AbstentionReason.OVER_RISK_THRESHOLD),
    ],
)
def test_why_nothing_was_chosen(rows: list[tuple[int, int, bool, float, float]], reason: AbstentionReason) -> None:
    found = select(sets(*rows), 1_000, RULE)
    assert (found.chosen, found.reason) == (None, reason)


def test_without_sets_there_is_no_valid_one() -> None:
    nothing = ProposedSets(*(np.array([], dtype=kind) for kind in (int, int, bool, float, float)))
    assert select(nothing, 1_000, RULE).reason is AbstentionReason.NO_VALID_SET


def test_the_threshold_at_its_ends() -> None:
    some = sets((1, 100, True, 0.0, 0.0), (1, 150, True, 1.0, 0.0))
    assert select(some, 1_000, SelectionRule(3, 0.2, -math.inf)).chosen is None
    assert select(some, 1_000, SelectionRule(3, 0.2, math.inf)).chosen == 1
    with pytest.raises(ValueError, match="not a number"):
        SelectionRule(3, 0.2, math.nan)


ROW = st.tuples(
    st.integers(1, 4), st.integers(0, 30), st.booleans(), st.sampled_from([0.0, 0.1, 0.2]), st.sampled_from([0.0, 0.5])
)


@given(
    rows=st.lists(ROW, min_size=1, max_size=15), tokens=st.integers(1, 200), threshold=st.sampled_from([0.0, 0.1, 1.0])
)
def test_it_is_the_best_of_the_feasible(
    rows: list[tuple[int, int, bool, float, float]], tokens: int, threshold: float
) -> None:
    rule = SelectionRule(3, 0.2, threshold)
    found = select(sets(*rows), tokens, rule)
    feasible = [
        (-saving, score, harm, number)
        for number, (size, saving, safe, score, harm) in enumerate(rows)
        if size <= 3 and 0 < saving <= 0.2 * tokens and safe and score <= threshold
    ]
    assert found.chosen == (min(feasible)[3] if feasible else None)
    assert found.feasible.sum() == len(feasible)
    assert (found.reason is None) == bool(feasible)
    assert (structurally_valid(sets(*rows), tokens, 3, 0.2) >= found.feasible).all()


def test_every_verdict_by_hand() -> None:
    rows = [
        (4, 100, True, 0.0, 0.0),
        (1, 0, True, 0.0, 0.0),
        (1, 100, False, 0.0, 0.0),
        (1, 201, True, 0.0, 0.0),
        (1, 100, True, 0.3, 0.0),
        (1, 99, True, 0.0, 0.0),
        (1, 150, True, 0.15, 0.0),
        (1, 150, True, 0.1, 0.2),
        (1, 150, True, 0.1, 0.1),
        (1, 150, True, 0.1, 0.1),
        (1, 100, True, math.nan, 0.0),
    ]
    rule = SelectionRule(3, 0.2, 0.2)
    selection = select(sets(*rows), 1_000, rule)
    assert verdicts(sets(*rows), 1_000, rule, selection) == [
        Standing.TOO_MANY_BLOCKS,
        Standing.SAVES_NOTHING,
        Standing.BREAKS_PROTOCOL,
        Standing.OVER_REMOVAL_CAP,
        Standing.OVER_RISK_THRESHOLD,
        Standing.SAVES_LESS,
        Standing.HIGHER_UNSAFE_SCORE,
        Standing.HIGHER_PREDICTED_HARM,
        Standing.CHOSEN,
        Standing.LISTED_LATER,
        Standing.OVER_RISK_THRESHOLD,
    ]


@given(
    rows=st.lists(ROW, min_size=1, max_size=15), tokens=st.integers(1, 200), threshold=st.sampled_from([0.0, 0.1, 1.0])
)
def test_verdicts_agree_with_the_selection(
    rows: list[tuple[int, int, bool, float, float]], tokens: int, threshold: float
) -> None:
    rule = SelectionRule(3, 0.2, threshold)
    selection = select(sets(*rows), tokens, rule)
    found = verdicts(sets(*rows), tokens, rule, selection)
    beaten = {Standing.SAVES_LESS, Standing.HIGHER_UNSAFE_SCORE, Standing.HIGHER_PREDICTED_HARM, Standing.LISTED_LATER}
    assert [verdict in beaten | {Standing.CHOSEN} for verdict in found] == selection.feasible.tolist()
    assert [row for row, verdict in enumerate(found) if verdict is Standing.CHOSEN] == (
        [] if selection.chosen is None else [selection.chosen]
    )
