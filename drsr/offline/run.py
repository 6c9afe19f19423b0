"""The loop over stages, behind `drsr run` and the nightly flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class Done(Generic[Result]):
    """The work of a run so far."""

    results: dict[str, Result] = field(default_factory=dict)
    """What each stage returned."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each took, including one that raised."""


def in_order(
    stages: Iterable[str],
    run: Callable[[str], Result],
    check: Callable[[str, Result], bool],
    done: Done[Result] | None = None,
) -> Done[Result]:
    """Run stages until `run` or `check` raises, or `check` returns False: it is enough.

    Whoever wants to know what was done before a stage raised passes `done`, which is filled on the way.
    """
    done = Done() if done is None else done
    for stage in stages:
        started = time.monotonic()
        try:
            done.results[stage] = run(stage)
        finally:
            done.seconds[stage] = time.monotonic() - started
        if not check(stage, done.results[stage]):
            break
    return done
