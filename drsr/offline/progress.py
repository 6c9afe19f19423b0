"""Progress of long work: a moving bar when a person watches, a plain line now and then when not. On standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 10.0

Report = Callable[[int, int | None], None]
"""Called with how much is done, and of how much where that is known."""


@contextmanager
def progress(what: str, unit: str) -> Iterator[Report]:
    """Gives a function to call with the progress of `what`, counted in `unit`."""
    if not sys.stderr.isatty():
        yield _lines(what, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str, unit: str) -> Report:
    last = time.monotonic()

    def report(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{what}: {done:,}{'' if total is None else f' of {total:,}'} {unit}", file=sys.stderr, flush=True)

    return report
