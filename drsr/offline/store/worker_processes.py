"""A stage in several processes: one single-threaded process per core is faster than threads.

The processes share nothing but the catalog. If one dies, the others take its trajectory over. Its death is still
reported, because with a limit each does no more than its share. All of them end with the process that started them,
however it ends: each watches a pipe whose other end only that process holds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, NamedTuple, TypeVar, cast

from drsr.errors import DrsrError

Order = TypeVar("Order")
"""Orders for a worker process: plain values only, so that they can be sent to it."""
Report = Callable[[dict[str, Any]], None]
"""Is called with what was done so far."""
Work = Callable[[Order, Report], dict[str, Any]]
"""Carries an order out in this process, and returns what was done."""


class WorkerFailed(DrsrError):
    """A worker process ended with an error, or all were killed. `passing` as CatalogUnreachable has it."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, passing: bool = False) -> None:
        super().__init__(what, where=where, hint=hint)
        self.passing = passing


class _Failure(NamedTuple):
    """The error that ended a worker, as the worker reports it."""

    what: str
    passing: bool
    trace: str
    """Empty for an error that drsr raises on purpose."""


class _TracebackOfWorker(Exception):
    """The cause of a WorkerFailed, as `--debug` shows it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def share(limit: int | None, workers: int) -> int | None:
    """Return each worker's share of a limit on all of them together."""
    return None if limit is None else -(-limit // workers)


def work_together(work: Work[Order], orders: Sequence[Order], report: Report) -> dict[str, Any]:
    """Carry out orders, each in its own process; `report` is called with the total progress.

    `work` does one of them; it must be a function of a module, to be sent to another process. A single order is carried
    out in this one. If some were killed, `lost_workers` of the result is their number, and `endings` says how they
    ended; an error in one of them is raised when the others are done.
    """
    if len(orders) == 1:
        return work(orders[0], report)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__, "drsr.offline.label.stage", "transformers"])
    watched, held = context.Pipe(duplex=False)
    started = [_start(context, work, order, watched) for order in orders]
    watched.close()
    latest: dict[int, dict[str, Any]] = {}
    failures: dict[int, _Failure] = {}
    done: set[int] = set()
    waiting: dict[Any, int] = {pipe: number for number, (_, pipe) in enumerate(started, start=1)}
    try:
        while waiting:
            for pipe in wait(list(waiting)):
                try:
                    kind, value = cast(Pipe, pipe).recv()
                except EOFError:  # the worker has ended, one way or the other
                    del waiting[pipe]
                    continue
                if kind == "failed":
                    failures[waiting[pipe]] = _Failure(*value)
                else:
                    latest[waiting[pipe]] = value
                    report(_added(latest))
                if kind == "done":
                    done.add(waiting[pipe])
    except BaseException:  # an interrupt: it is for the workers, too, who do not listen to the keyboard
        for process, _ in started:
            process.terminate()
        raise
    finally:
        for process, _ in started:
            process.join()
        held.close()
    if failures:
        raise _failed(failures, len(orders)) from _cause(failures)
    lost = [
        f"worker {number} of {len(orders)} {_ending(process.exitcode)}"
        for number, (process, _) in enumerate(started, start=1)
        if number not in done
    ]
    if len(lost) == len(orders):
        raise WorkerFailed(f"no worker is left: {', '.join(lost)}", hint="nothing recorded is lost; run again")
    return _added(latest) | ({"lost_workers": len(lost), "endings": lost} if lost else {})


def _start(
    context: ForkServerContext, work: Work[Order], order: Order, watched: Pipe
) -> tuple[ForkServerProcess, Pipe]:
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_process, args=(work, order, sending, watched))
    process.start()
    sending.close()
    return process, receiving


def _end_with_starter(watched: Pipe) -> None:
    """Wait until the parent process is gone, then end this one at once: what it has recorded is safe."""
    with suppress(EOFError, OSError):
        watched.recv()  # nothing is ever sent
    os._exit(1)


def _process(work: Work[Order], order: Order, pipe: Pipe, watched: Pipe) -> None:
    threading.Thread(target=_end_with_starter, args=(watched,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all of us; the one who started us answers
    try:
        pipe.send(("done", work(order, lambda so_far: pipe.send(("so far", so_far)))))
    except Exception as error:
        with suppress(OSError):  # who started us may have gone, and that may be the very error
            pipe.send(("failed", _said_of(error)))
    finally:
        pipe.close()


def _said_of(error: Exception) -> _Failure:
    if isinstance(error, DrsrError):
        return _Failure(str(error), getattr(error, "passing", False), "")
    trace = "".join(traceback.format_exception(error))
    return _Failure(f"internal error: {type(error).__name__}: {error}", False, trace)


def _failed(failures: Mapping[int, _Failure], of: int) -> WorkerFailed:
    first = next(iter(failures.values()))
    others = "the others went on; " if len(failures) < of else ""
    fault = "this is a fault of drsr; --debug shows the traceback; " if first.trace else ""
    return WorkerFailed(
        first.what,
        where=f"worker {', '.join(map(str, sorted(failures)))} of {of}",
        hint=f"{fault}{others}run again",
        passing=all(failure.passing for failure in failures.values()),
    )


def _cause(failures: Mapping[int, _Failure]) -> _TracebackOfWorker | None:
    return next((_TracebackOfWorker(failure.trace) for failure in failures.values() if failure.trace), None)


def _ending(exit_code: int | None) -> str:
    """Return how a process ended that left no message."""
    if exit_code is not None and exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:  # a real-time signal
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code} before it was done"


def _added(latest: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the workers' summaries as one: numbers added up, seconds the longest, words the last one's."""
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
