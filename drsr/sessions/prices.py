"""Prices of a provider that caches prefixes, and when a deletion is worth rewriting its cache.

A provider that has seen the beginning of a request reads it from its cache at a fraction of the price. Deleting
something old changes everything after it, which must then be written to the cache again:

    keep      cached * cached_input + (tokens - cached) * cache_write
    delete    first_changed * cached_input + (tokens - saving - first_changed) * cache_write    (once)
              and saving * cached_input less in every later call

All of it is arithmetic on token counts: no clock, no state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from drsr.errors import SettingsError

MILLION = 1_000_000
CALLS_PER_CALL_TO_COME = 4
"""Unless the length of a run is given, one more call is expected for every four so far. This errs low on purpose: a run
shorter than expected pays for deletions that no later call pays back, a longer one only saves a little less (measured
in docs/benchmarks.md)."""


def calls_to_come(had: int, expected: int | None) -> int:
    """Return how many calls are expected after the next one, by how many a run has had, and has in all if known."""
    return had // CALLS_PER_CALL_TO_COME if expected is None else max(expected - had - 1, 0)


class Weighed(NamedTuple):
    """The costs and savings of a deletion, in money."""

    extra_now: float
    """Extra cost of this call; negative if it becomes cheaper at once."""
    saved_later: float
    """Expected saving over all later calls together."""

    @property
    def worth(self) -> float:
        return self.saved_later - self.extra_now

    @property
    def worth_it(self) -> bool:
        return self.worth > 0


@dataclass(frozen=True, slots=True)
class Prices:
    """Per million tokens, in any one currency."""

    input: float
    """Input that is neither read from a cache nor written to one."""
    cached_input: float
    """Input that is read from the cache."""
    cache_write: float
    """Price of input that is written to the cache; the same as `input` if a provider charges nothing extra for it."""
    output: float
    cache_minimum: int = 0
    """Requests with fewer tokens are not cached at all, and prefixes shorter than this are not read from the cache."""
    cache_lifetime: float | None = None
    """Seconds after which an unused prefix is forgotten; None if it outlives every pause."""

    def __post_init__(self) -> None:
        for name in ("input", "cached_input", "cache_write", "output", "cache_minimum", "cache_lifetime"):
            value = getattr(self, name)
            if value is None and name == "cache_lifetime":
                continue
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
                raise SettingsError(f"the price setting {name} must be a number from 0 on, not {value!r}")

    @classmethod
    def parse(cls, text: str) -> Prices:
        """Parse `INPUT,CACHED,WRITE,OUTPUT`, such as `3,0.3,3.75,15`."""
        try:
            given = [float(part) for part in text.split(",")]
        except ValueError:
            given = []
        if len(given) != 4:
            raise SettingsError(
                f"prices must be four numbers, not {text!r}",
                hint="input, cached input, cache write and output, per million tokens: 3,0.3,3.75,15",
            )
        return cls(given[0], given[1], given[2], given[3])

    def input_cost(self, tokens: int, cached: int) -> float:
        """Return the cost of a request of `tokens` tokens, the first `cached` of which are in the provider's cache."""
        return self._input_millionths(tokens, cached) / MILLION

    def without_cache(self) -> Prices:
        """Return the cost of a request that does not ask for caching: nothing is read from a cache or written to it."""
        return replace(self, cached_input=self.input, cache_write=self.input)

    def output_cost(self, tokens: int) -> float:
        return tokens * self.output / MILLION

    def readable(self, cached: int) -> int:
        """Return how much of a common prefix is read from the cache."""
        return cached if cached >= self.cache_minimum else 0

    def _input_millionths(self, tokens: int, cached: int) -> float:
        """Return the same in millionths: exact for round prices, so that equal costs compare as equal."""
        if tokens < self.cache_minimum:
            return tokens * self.input
        read = self.readable(cached)
        return read * self.cached_input + (tokens - read) * self.cache_write

    def weigh(self, *, tokens: int, cached: int, first_changed: int, saving: int, remaining_calls: int) -> Weighed:
        """Weigh one deletion.

        `tokens` is the length of the request without the deletion; the first `cached` of these tokens are in the
        provider's cache; the deletion takes away `saving` tokens, the first of them at position `first_changed`. After
        this call `remaining_calls` more are expected, and each carries the whole request again.
        """
        left = tokens - saving
        keep = self._input_millionths(tokens, cached)
        delete = self._input_millionths(left, min(cached, first_changed))
        if left < self.cache_minimum:  # the run is cached a call later than it would be
            delete += left * max(self.cache_write - self.cached_input, 0)
        carried = saving * self.cached_input  # later calls are longer, and mostly read from the cache
        return Weighed((delete - keep) / MILLION, remaining_calls * carried / MILLION)

    def to_json(self) -> dict[str, float | None]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


RELATIVE = Prices(1, 0.1, 1.25, 5)
"""Prices that weigh a deletion if the model's own are unknown: the ratios of the providers whose cache is most
expensive to rewrite. They never turn into amounts of money."""
