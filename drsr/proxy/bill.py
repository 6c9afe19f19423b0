"""The bill of one exchange: its cost, and its cost without pruning, from what the upstream counted.

The first is as exact as the prices: the upstream's own counts at the list price. The second is the first plus what the
deletion saved, because the longer request was never sent. In a session the saving is the one that the session computed,
including the cost of rewriting the cache; without a session it is the deleted tokens at the price of cached input if
the answer says that there is a cache, else at the price of input. If the model recalled what had been removed, nothing
was saved, and pruning caused the calls for that: without it there would have been only the last call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drsr.proxy.http.usage import Usage
from drsr.sessions.prices import MILLION, Prices

PricesOf = Callable[[str | None], Prices | None]
"""Returns the prices of a model by its name; None if they are unknown."""


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
    """Return the bill of an exchange from which `tokens_saved` tokens were missing. `recalling` is the part of the
    usage that went into recalls."""
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
    """Return the money that a deletion saved in this call; negative if the cache had to be rewritten for it."""
    if not tokens_saved:
        return 0.0
    cost = session.get("cost") if session else None
    if cost is not None:
        return float(cost["unpruned"] - cost["sent"])
    has_cache = usage.cached or usage.cache_creation
    return tokens_saved * (prices.cached_input if has_cache else prices.input) / MILLION
