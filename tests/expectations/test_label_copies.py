"""Copies of a label are found whatever monotone function hides them, and honest columns are not taken for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from drsr.expectations.label_copies import MINIMUM, has_an_order, rank_agreement, split_agreement
from drsr.expectations.suites.features import LARGEST_AGREEMENT

ROWS = 60
DRAW = np.random.default_rng(5)
HARM = DRAW.normal(0.01, 0.05, ROWS)
HONEST = DRAW.normal(size=(ROWS, 300)).astype(np.float32)
OWN_STATE = list(range(ROWS))

COPIES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "itself": lambda harm: harm,
    "negated": lambda harm: -harm,
    "in other units": lambda harm: 1_000.0 * harm + 3.0,
    "a logistic function": lambda harm: 1 / (1 + np.exp(-harm)),
    "cubed": lambda harm: harm**3,
    "its ranks": lambda harm: np.argsort(np.argsort(harm)).astype(float),
    "with a little noise": lambda harm: harm + 1e-7 * np.sign(np.sin(1e5 * harm)),
}


@pytest.mark.parametrize("hide", COPIES.values(), ids=COPIES)
def test_a_copy_is_found(hide: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    features = np.column_stack([HONEST[:, :3], hide(HARM), HONEST[:, 3:6]]).astype(np.float32)
    found = rank_agreement(features, {"harm": HARM, "other": HONEST[:, 7]}, OWN_STATE)
    assert np.flatnonzero(found.correlation > LARGEST_AGREEMENT).tolist() == [3]
    assert found.label[3] == "harm"


def test_a_copy_in_one_split_alone_is_found() -> None:
    """As somebody would plant it who wants to shine on the test split."""
    splits = ["train"] * 40 + ["test"] * 20
    copied = np.where(np.arange(ROWS) < 40, HONEST[:, 0], np.exp(HARM))
    features = np.column_stack([HONEST[:, 1:3], copied]).astype(np.float32)
    assert (rank_agreement(features, {"harm": HARM}, OWN_STATE).correlation < LARGEST_AGREEMENT).all()
    found = split_agreement(features, {"harm": HARM}, OWN_STATE, splits)
    assert (found.correlation > LARGEST_AGREEMENT).tolist() == [False, False, True]
    assert (found.label[2], found.labels, found.rows) == ("harm in test", 1, ROWS)


def test_what_was_compared_is_counted() -> None:
    label = np.where(np.arange(ROWS) < 20, HARM, np.nan)
    found = rank_agreement(HONEST, {"harm": label, "constant": np.ones(ROWS), "none": HARM * np.nan}, OWN_STATE)
    assert (found.labels, found.rows) == (1, 20)
    assert rank_agreement(HONEST, {}, OWN_STATE)[2:] == (0, 0)


def test_a_copy_of_a_verdict_is_found() -> None:
    unsafe = (HARM > 0.02).astype(float)
    found = rank_agreement(np.column_stack([unsafe, 1 - unsafe, HARM]).astype(np.float32), {"u": unsafe}, OWN_STATE)
    assert (found.correlation > LARGEST_AGREEMENT).tolist() == [True, True, False]


def test_rows_without_the_label_do_not_hide_a_copy() -> None:
    label = HARM.copy()
    label[::3] = np.nan
    copied = np.where(np.isnan(label), 0.0, label)[:, None].astype(np.float32)
    assert rank_agreement(copied, {"harm": label}, OWN_STATE).correlation[0] > LARGEST_AGREEMENT


def test_honest_columns_are_far_from_it() -> None:
    assert rank_agreement(HONEST, {"harm": HARM}, OWN_STATE).correlation.max() < 0.6


def test_a_constant_and_nothing_at_all() -> None:
    constant = rank_agreement(np.ones((ROWS, 2), dtype=np.float32), {"harm": HARM}, OWN_STATE)
    assert constant.correlation.tolist() == [0.0, 0.0]
    assert constant.label == ["", ""]
    empty = rank_agreement(np.empty((0, 2), dtype=np.float32), {}, [])
    assert empty.correlation.tolist() == [0.0, 0.0]


def test_few_states_have_no_order_of_their_own() -> None:
    """A number that all candidates of a state share: five states can be ordered by chance as a column orders them."""
    states = np.repeat(np.arange(5), 3).tolist()
    assert not has_an_order(np.repeat(HARM[:5], 3), states)
    assert has_an_order(HARM[:15], states)
    verdicts = np.array([1.0] * MINIMUM + [0.0] * 40)
    assert has_an_order(verdicts, OWN_STATE[: len(verdicts)])
    assert not has_an_order(verdicts, [0] * MINIMUM + OWN_STATE[:40])
    assert not has_an_order(np.zeros(50), OWN_STATE[:50])


@given(st.data())
def test_the_slow_twin(data: st.DataObject) -> None:
    """One rank correlation after the other, by the library that knows."""
    values = st.lists(st.integers(-3, 3), min_size=30, max_size=30)
    features = np.array(data.draw(st.lists(values, min_size=1, max_size=4)), dtype=np.float32).T
    labels = {"a": HARM[:30], "b": np.round(HARM[:30], 2)}
    found = rank_agreement(features, labels, OWN_STATE[:30])
    for column in range(features.shape[1]):
        if np.ptp(features[:, column]) == 0:
            assert found.correlation[column] == 0.0
            continue
        slow = [abs(spearmanr(features[:, column], label).statistic) for label in labels.values()]
        judged = [value for value, label in zip(slow, labels.values(), strict=True) if has_an_order(label, OWN_STATE)]
        assert found.correlation[column] == pytest.approx(max(judged), abs=1e-9)
