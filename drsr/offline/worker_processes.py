"""A stage in several processes: one single-threaded process per core is faster than threads.

The processes share nothing but the catalog. One that dies is no loss: the others take its trajectory over.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, TypeVar, cast

from drsr.errors import DrsrError

Order = TypeVar("Order")
"""What a worker process is told: plain values only, so that they can be sent to it."""
Report = Callable[[dict[str, Any]], None]
"""Is called with what was done so far."""
Work = Callable[[Order, Report], dict[str, Any]]
"""Carries an order out in this process, and says at the end what was done."""


class WorkerFailed(DrsrError):
    """A worker process ended with an error. `passing` as CatalogUnreachable has it."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, passing: bool = False) -> None:
        super().__init__(what, where=where, hint=hint)
        self.passing = passing


def share(limit: int | None, workers: int) -> int | None:
    """What each of some workers is to do of a limit that is for all of them."""
    return None if limit is None else -(-limit // workers)


def work_together(work: Work[Order], orders: Sequence[Order], report: Report) -> dict[str, Any]:
    """Carry orders out, each in a process of its own; `report` is called with what all of them did so far.

    `work` does one of them; it must be a function of a module, to be sent to another process. A single order is
    carried out in this one.
    """
    if len(orders) == 1:
        return work(orders[0], report)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__, "drsr.offline.label", "transformers"])
    started = [_start(context, work, order) for order in orders]
    latest: dict[int, dict[str, Any]] = {}
    failures: list[tuple[str, bool]] = []
    waiting: dict[Any, int] = {pipe: number for number, (_, pipe) in enumerate(started)}
    while waiting:
        for pipe in wait(list(waiting)):
            try:
                kind, value = cast(Pipe, pipe).recv()
            except EOFError:  # the worker has ended, one way or the other
                del waiting[pipe]
                continue
            if kind == "failed":
                failures.append(value)
            else:
                latest[waiting[pipe]] = value
                report(_added(latest))
    for process, _ in started:
        process.join()
    died = [process.exitcode for process, _ in started if process.exitcode]
    if failures:
        raise WorkerFailed(
            failures[0][0],
            where=f"{len(failures)} of {len(orders)} workers",
            hint="the others went on; run again",
            passing=all(passing for _, passing in failures),
        )
    if len(died) == len(orders):
        raise WorkerFailed(f"all workers were killed (exit codes {died})", hint="nothing is lost; run again")
    return _added(latest)


def _start(context: ForkServerContext, work: Work[Order], order: Order) -> tuple[ForkServerProcess, Pipe]:
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(work, order, sending))
    process.start()
    sending.close()
    return process, receiving


def _process(work: Work[Order], order: Order, pipe: Pipe) -> None:
    try:
        pipe.send(("done", work(order, lambda so_far: pipe.send(("so far", so_far)))))
    except DrsrError as error:
        pipe.send(("failed", (str(error), getattr(error, "passing", False))))
    finally:
        pipe.close()


def _added(latest: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The workers' summaries as one: numbers added up, seconds the longest, words the last one's."""
    total: dict[str, Any] = {}
    for summary in latest.values():
        for key, value in summary.items():
            if isinstance(value, dict):
                there = total.setdefault(key, {})
                for reason, count in value.items():
                    there[reason] = there.get(reason, 0) + count
            elif isinstance(value, str):
                total[key] = value
            else:
                total[key] = max(total.get(key, 0), value) if key == "seconds" else total.get(key, 0) + value
    return total
