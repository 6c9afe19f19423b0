"""The bill of one exchange: its cost, and its cost without pruning, from what the upstream counted.

The first is exact, as far as the prices are: the upstream's own counts at the list price. The second is the first and
what the deletion saved: nobody was asked for the longer request. In a session that is what the session reckoned, the
cost of writing the cache again included; without one, the deleted tokens at the price of cached input where the answer
says that there is a cache, else of input. Where the model recalled what had been removed, nothing was saved, and the
calls for that were paid because of pruning: without it there would have been the last call alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drsr.proxy.http.usage import Usage
from drsr.sessions.prices import MILLION, Prices

PricesOf = Callable[[str | None], Prices | None]
"""The prices of a model, by its name; None where they are not known."""


class Bill(NamedTuple):
    """Money for one exchange, in the currency of the prices."""

    paid: float
    without_pruning: float


def bill(
    prices: Prices,
    usage: Usage,
    tokens_saved: int,
    session: Mapping[str, Any] | None,
    *,
    recalling: Usage | None = None,
) -> Bill:
    """The bill of an exchange from which `tokens_saved` tokens were missing. `recalling` is the part of the usage that
    went into recalls."""
    paid = _cost(prices, usage)
    less = -_cost(prices, recalling) if recalling is not None else saved(prices, usage, tokens_saved, session)
    return Bill(paid, max(paid + less, 0.0))


def _cost(prices: Prices, usage: Usage) -> float:
    return (
        usage.input * prices.input
        + usage.cached * prices.cached_input
        + usage.cache_creation * prices.cache_write
        + usage.output * prices.output
    ) / MILLION


def saved(prices: Prices, usage: Usage, tokens_saved: int, session: Mapping[str, Any] | None) -> float:
    """Return the money that a deletion saved in this call; negative where the cache had to be written again for it."""
    if not tokens_saved:
        return 0.0
    cost = session.get("cost") if session else None
    if cost is not None:
        return float(cost["unpruned"] - cost["sent"])
    has_cache = usage.cached or usage.cache_creation
    return tokens_saved * (prices.cached_input if has_cache else prices.input) / MILLION
