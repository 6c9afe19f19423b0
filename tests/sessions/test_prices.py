"""The economics of the prompt cache against examples computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import SettingsError
from drsr.sessions.prices import Prices, calls_to_come

WRITE_PREMIUM = Prices(input=3, cached_input=0.3, cache_write=3.75, output=15)
AUTOMATIC = Prices(input=2.5, cached_input=1.25, cache_write=2.5, output=10)


def micro(amount: float) -> float:
    """In millionths, where prices per million tokens are prices per token."""
    return round(amount * 1e6, 6)


def test_the_cost_of_a_call() -> None:
    # 9,000 x 0.30 + 1,000 x 3.75 = 2,700 + 3,750
    assert micro(WRITE_PREMIUM.input_cost(10_000, cached=9_000)) == 6_450
    # 10,000 x 3.75
    assert micro(WRITE_PREMIUM.input_cost(10_000, cached=0)) == 37_500
    assert micro(WRITE_PREMIUM.output_cost(200)) == 3_000
    assert WRITE_PREMIUM.input_cost(0, 0) == 0


def test_short_requests_are_not_cached() -> None:
    prices = Prices(3, 0.3, 3.75, 15, cache_minimum=1_024)
    assert micro(prices.input_cost(1_000, cached=900)) == 3_000  # 1,000 x 3.00
    assert micro(prices.input_cost(2_000, cached=900)) == 7_500  # 900 is no prefix that could be read: 2,000 x 3.75
    assert micro(prices.input_cost(2_000, cached=1_024)) == 307.2 + 3_660  # 1,024 x 0.30 + 976 x 3.75


@pytest.mark.parametrize(
    ("prices", "extra_now", "saved_per_call", "first_worthwhile"),
    [
        # keep 9,000 x 0.30 + 1,000 x 3.75 = 6,450; delete 2,000 x 0.30 + 7,000 x 3.75 = 26,850; later 1,000 x 0.30
        (WRITE_PREMIUM, 20_400, 300, 69),
        # keep 9,000 x 1.25 + 1,000 x 2.50 = 13,750; delete 2,000 x 1.25 + 7,000 x 2.50 = 20,000; later 1,000 x 1.25
        (AUTOMATIC, 6_250, 1_250, 6),
    ],
)
def test_deleting_a_thousand_tokens_near_the_beginning(
    prices: Prices, extra_now: float, saved_per_call: float, first_worthwhile: int
) -> None:
    for remaining in (0, 1, first_worthwhile - 1, first_worthwhile, first_worthwhile + 1):
        weighed = prices.weigh(
            tokens=10_000, cached=9_000, first_changed=2_000, saving=1_000, remaining_calls=remaining
        )
        assert micro(weighed.extra_now) == extra_now
        assert micro(weighed.saved_later) == remaining * saved_per_call
        assert weighed.worth_it == (remaining >= first_worthwhile)


def test_nothing_is_lost_behind_the_cached_prefix() -> None:
    """What changes only behind the cached part is cheaper at once: 1,000 x 3.75 less."""
    weighed = WRITE_PREMIUM.weigh(tokens=10_000, cached=4_000, first_changed=4_000, saving=1_000, remaining_calls=0)
    assert micro(weighed.extra_now) == -3_750
    assert weighed.worth_it


def test_without_a_cache_every_deletion_is_worth_it() -> None:
    weighed = WRITE_PREMIUM.weigh(tokens=10_000, cached=0, first_changed=10, saving=1, remaining_calls=0)
    assert micro(weighed.extra_now) == -3.75
    assert weighed.worth_it


def test_equal_money_is_not_worth_it() -> None:
    assert Prices(0, 0, 0, 0).weigh(tokens=9, cached=9, first_changed=1, saving=3, remaining_calls=9).worth_it is False


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 500))
def test_it_is_the_difference_of_two_whole_runs(
    tokens: int, cached: int, first_changed: int, saving: int, remaining: int
) -> None:
    """The slow twin: both runs call by call, every later call the same request again, all of it in the cache."""
    cached, first_changed, saving = min(cached, tokens), min(first_changed, tokens), min(saving, tokens)
    prices = AUTOMATIC
    keep = prices.input_cost(tokens, cached) + sum(prices.input_cost(tokens, tokens) for _ in range(remaining))
    left = tokens - saving
    first = min(cached, first_changed, left)
    delete = prices.input_cost(left, first) + sum(prices.input_cost(left, left) for _ in range(remaining))
    weighed = prices.weigh(
        tokens=tokens,
        cached=cached,
        first_changed=min(first_changed, left),
        saving=saving,
        remaining_calls=remaining,
    )
    assert weighed.saved_later - weighed.extra_now == pytest.approx(keep - delete, abs=1e-9)


def test_prices_from_text() -> None:
    assert Prices.parse("3, 0.3,3.75,15") == WRITE_PREMIUM
    for text in ("", "3,4", "a,b,c,d", "1,2,3,4,5"):
        with pytest.raises(SettingsError, match="four numbers"):
            Prices.parse(text)
    for text in ("-1,0,0,0", "nan,0,0,0", "inf,0,0,0"):
        with pytest.raises(SettingsError, match="from 0 on"):
            Prices.parse(text)


@pytest.mark.parametrize("output", ["x", None, True, [15]])
def test_a_price_that_is_no_number_is_refused(output: Any) -> None:
    with pytest.raises(SettingsError, match="the price setting output must be a number from 0 on"):
        Prices(3, 0.3, 3.75, output)


def test_a_run_goes_on_the_longer_the_longer_it_went_on() -> None:
    assert [calls_to_come(had, None) for had in (0, 3, 4, 12, 100)] == [0, 0, 1, 3, 25]
    assert [calls_to_come(had, 20) for had in (0, 12, 19, 30)] == [19, 7, 0, 0]
