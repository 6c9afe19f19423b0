"""The loop over stages, behind `drsr run` and the nightly flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")
Value = TypeVar("Value")
_NOTE = "in the stage "


@dataclass(slots=True)
class Done(Generic[Result]):
    """The work of a run so far."""

    results: dict[str, Result] = field(default_factory=dict)
    """Result of each stage."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds that each took, including one that raised."""


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
            done.results[stage] = _noted(stage, lambda: run(stage))  # noqa: B023 - called at once
        finally:
            done.seconds[stage] = time.monotonic() - started
        if not _noted(stage, lambda: check(stage, done.results[stage])):  # noqa: B023
            break
    return done


def stage_of(error: BaseException) -> str | None:
    """Return the stage in which an error was raised, if `in_order` ran it."""
    notes = [note.removeprefix(_NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE)]
    return notes[0] if notes else None


def _noted(stage: str, call: Callable[[], Value]) -> Value:
    """Call, and note the stage on any exception."""
    try:
        return call()
    except Exception as error:
        error.add_note(f"{_NOTE}{stage}")
        raise
