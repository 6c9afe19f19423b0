"""Minimums: the least that a decision must be able to save, checked before a language model reads anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drsr.errors import SettingsError
from drsr.request.request import Request

BYTES_PER_TOKEN = 3
"""Fewer are rare in the text of agents: a request is not taken to be shorter than it is."""


@dataclass(frozen=True, slots=True)
class Minimums:
    """Requests and savings below these are left alone."""

    request_tokens: int = 500
    """A shorter request has little to lose, and providers cache nothing so short."""
    saving_tokens: int = 64
    """A set that saves less is not proposed: reading a request to save a sentence costs more than it saves."""

    def __post_init__(self) -> None:
        for name, value in (("min_request_tokens", self.request_tokens), ("min_saving_tokens", self.saving_tokens)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise SettingsError(f"{name} must be a whole number from 0 on, not {value!r}")

    def replaced(self, request_tokens: int | None, saving_tokens: int | None) -> Minimums:
        """Return the minimums with a caller's own values in their place."""
        return Minimums(
            self.request_tokens if request_tokens is None else request_tokens,
            self.saving_tokens if saving_tokens is None else saving_tokens,
        )

    def why_below(self, request: Request, removal_cap: float) -> str | None:
        """Return why a request is certainly not worth a decision, judging only by the size of its text, or None."""
        if not self.request_tokens and not self.saving_tokens:
            return None
        size = sum(_bytes(message.wire) for message in request.messages) + _bytes(request.fields)
        return self.why_short(size // BYTES_PER_TOKEN, removal_cap)

    def why_short(self, tokens: int, removal_cap: float) -> str | None:
        """Return the same for a request whose tokens were counted."""
        if tokens < self.request_tokens:
            return f"shorter than {self.request_tokens} tokens"
        if removal_cap * tokens < self.saving_tokens:
            return f"{removal_cap:.0%} of it are fewer than {self.saving_tokens} tokens"
        return None


NO_MINIMUMS = Minimums(0, 0)


def _bytes(value: Any) -> int:
    """Return the bytes of all text in a JSON value."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    if isinstance(value, dict):
        return sum(len(key) + _bytes(item) for key, item in value.items())
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 1
