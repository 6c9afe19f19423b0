"""Progress of long work: a moving bar on a terminal, otherwise a plain line now and then. On standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 10.0


class Report(Protocol):
    """Called with the amount done, the total if known, and a remark on how it goes if there is one."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None: ...


@contextmanager
def progress(what: str, unit: str) -> Iterator[Report]:
    """Gives a function to call with the progress of `what`, counted in `unit`."""
    if not sys.stderr.isatty():
        yield _lines(what, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    more = TextColumn("{task.fields[note]}")
    with Progress(*columns, TimeRemainingColumn(), more, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, note="")
        yield lambda done, total, note="": bar.update(task, completed=done, total=total, note=note)


def _lines(what: str, unit: str) -> Report:
    last = time.monotonic()

    def report(done: int, total: int | None, note: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            how_much = f"{done:,}{'' if total is None else f' of {total:,}'} {unit}"
            print(f"{what}: {how_much}{note and f', {note}'}", file=sys.stderr, flush=True)

    return report
