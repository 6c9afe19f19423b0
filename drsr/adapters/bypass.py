"""A way around for single calls: what is sent inside `with bypass():` is sent as it is, through whichever adapter.

with bypass():
    agent.invoke(...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

BYPASS_HEADER = "x-drsr-bypass"
"""Where a call can carry headers, this one set to 1 says the same."""

_bypassed: ContextVar[bool] = ContextVar("drsr_bypassed", default=False)


@contextmanager
def bypass() -> Iterator[None]:
    """No pruning in here, also in the tasks and threads that are started here."""
    token = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(token)


def bypassed() -> bool:
    """Return whether this is inside `with bypass():`."""
    return _bypassed.get()


def asks_for_bypass(headers: Mapping[str, Any]) -> bool:
    """Return whether these headers ask to bypass the policy: any value but an empty one, `0`, `false` or `no` does."""
    asked = [str(value).strip().lower() for name, value in headers.items() if str(name).lower() == BYPASS_HEADER]
    return any(value not in ("", "0", "false", "no") for value in asked)
