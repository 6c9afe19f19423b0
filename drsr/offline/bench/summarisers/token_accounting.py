"""Tokens of whole tasks, counted by the paper's rules (appendices "Optimization and Metric Definitions" and "Comparator
Token Accounting").

    T_j = sum over requests of (I + O)                      complete-task processed tokens
    D_j = sum over requests of Tok(C) - Tok(D_A(C))         direct removal
    change (%) = 100 (mean T of the method / mean T of the baseline - 1)        negative is a decrease
    T_base - T_method = D + residual                        an identity, not a cause

Tokens read from a cache and written to one are parts of the input and are never added to it again. What a method's
summariser reads and writes counts. Local forwards of a backbone do not: they are not tokens of the acting model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from drsr.errors import InputError


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request to a model and its answer."""

    input_tokens: int
    """All tokens that were read, from a cache or not."""
    output_tokens: int
    cache_read_tokens: int = 0
    """The part of the input that was read from a cache."""
    cache_creation_tokens: int = 0
    """The part of the input that was written to a cache."""

    def __post_init__(self) -> None:
        counts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_creation_tokens)
        if min(counts) < 0:
            raise InputError(f"a negative number of tokens: {counts}", where="usage")
        if self.cache_read_tokens + self.cache_creation_tokens > self.input_tokens:
            raise InputError(
                f"{self.cache_read_tokens} tokens read from a cache and {self.cache_creation_tokens} written to one, "
                f"of only {self.input_tokens} input tokens",
                where="usage",
                hint="cache counts are parts of the input; Anthropic reports them separately: add them first",
            )

    @property
    def total(self) -> int:
        """I + O."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
        )

    @classmethod
    def of_openai(cls, usage: Mapping[str, Any]) -> Usage:
        """Read the `usage` of a chat completion, whose prompt tokens contain the cached ones.

        DeepSeek divides its prompt tokens into cache hits and misses. Misses are written to its cache, so the input
        consists of what was read from the cache and what was written to it, as in the paper's table.
        """
        if "prompt_cache_hit_tokens" in usage or "prompt_cache_miss_tokens" in usage:
            read, created = _count(usage, "prompt_cache_hit_tokens"), _count(usage, "prompt_cache_miss_tokens")
            if read + created != _count(usage, "prompt_tokens"):
                raise InputError(
                    f"{read} tokens read from the cache and {created} written to it are not the "
                    f"{usage['prompt_tokens']} of the prompt",
                    where="usage",
                    hint="the provider must report both parts of the same request",
                )
            return cls(read + created, _count(usage, "completion_tokens"), read, created)
        details = usage.get("prompt_tokens_details") or {}
        return cls(
            _count(usage, "prompt_tokens"),
            _count(usage, "completion_tokens"),
            int(details.get("cached_tokens") or 0),
            int(details.get("cache_creation_tokens") or 0),
        )


NOTHING = Usage(0, 0)


@dataclass(frozen=True, slots=True)
class TaskTokens:
    """The tokens that one task took from its first request to its last."""

    requests: tuple[Usage, ...]
    """Usage of the acting model."""
    direct: tuple[int | None, ...]
    """Tokens that the method removed from each request; None if they cannot be counted."""
    auxiliary: tuple[Usage, ...] = ()
    """Usage of the models that the method called along the way."""

    def __post_init__(self) -> None:
        if len(self.requests) != len(self.direct):
            raise InputError(
                f"{len(self.requests)} requests, direct removal of {len(self.direct)}", where="task tokens"
            )

    @property
    def usage(self) -> Usage:
        """All requests together, those of the method's own models included."""
        return sum((*self.requests, *self.auxiliary), NOTHING)

    @property
    def total(self) -> int:
        """T_j."""
        return self.usage.total

    @property
    def direct_removal(self) -> int | None:
        """Return D_direct,j. Negative if a method made requests longer; None if it cannot be counted for all of
        them."""
        counted = [tokens for tokens in self.direct if tokens is not None]
        return sum(counted) if len(counted) == len(self.direct) else None


class Decomposition(NamedTuple):
    """The difference between two rollouts of the same tasks. An accounting identity: the residual has no cause."""

    saved: float
    """T_base - T_method."""
    direct: float
    """D_direct."""
    residual: float
    """Difference that action paths, retries, endings and numbers of requests add or remove."""


def decompose(base_total: float, method_total: float, direct: float) -> Decomposition:
    """T_base - T_method = D_direct + residual."""
    saved = base_total - method_total
    return Decomposition(saved, direct, saved - direct)


def change_percent(method_mean: float, base_mean: float) -> float:
    """Return the change with the paper's sign: negative is a decrease."""
    if base_mean <= 0:
        raise InputError(f"a baseline of {base_mean} tokens has no change in percent", where="token change")
    return 100 * (method_mean / base_mean - 1)


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"no number of {name}", where="usage", hint="the provider must report what a request took")
    return value
