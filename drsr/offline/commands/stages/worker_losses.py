"""The message of a command whose workers ended too early, and whether that left work undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drsr.offline.store.worker_processes import WorkerFailed


@contextmanager
def says_what_is_left(left: Callable[[], int]) -> Iterator[None]:
    """An error of a worker also tells how many states wait now."""
    try:
        yield
    except WorkerFailed as error:
        error.hint = f"{left():,} states are left; {error.hint}"
        raise


def exit_code(summary: dict[str, Any], *, waited: int, limit: int | None, left: Callable[[], int]) -> int:
    """1 if workers were killed and fewer states were done than were to be; tells about it on standard error.

    `waited` is how many states there were to do at the start. Adds to the summary how many are `left`.
    """
    if not summary.get("lost_workers"):
        return 0
    summary["left"] = left()
    wanted = waited if limit is None else min(limit, waited)
    undone = wanted - (waited - summary["left"])
    for ending in summary["endings"]:
        print(f"drsr: {ending}", file=sys.stderr)
    if undone <= 0:
        print("  the others did its work", file=sys.stderr)
        return 0
    print(f"  {undone:,} of {wanted:,} states were not done because of it; run again", file=sys.stderr)
    return 1
