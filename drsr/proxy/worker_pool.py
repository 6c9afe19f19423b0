"""A few threads and a short queue in front of them. A task cancelled while it waits leaves memory at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerPool:
    """Unlike the library's executor it has a bound, and refuses instead of growing."""

    def __init__(self, name: str, workers: int, queue: int) -> None:
        """At most `workers` calls run at once and `queue` more wait."""
        self._room = workers + queue
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._closed = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T] | None:
        """Run a function in some thread, soon. Return None if the queue is full or the pool closed."""
        future: Future[T] = Future()
        with self._changed:
            if self._closed or self._running + len(self._jobs) >= self._room:
                return None
            self._jobs.append((future, call))
            self._changed.notify()
        future.add_done_callback(self._forget_cancelled)
        return future

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    def close(self, *, finish: bool, timeout: float | None = None) -> None:
        """End the threads once the running calls are done; with `finish` the waiting ones, too. With a `timeout`, wait
        for them at most these seconds; what still runs then dies with the process."""
        with self._changed:
            self._closed = True
            dropped = [] if finish else [future for future, _ in self._jobs]
            self._changed.notify_all()
        for future in dropped:
            future.cancel()
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(until - time.monotonic(), 0.0))

    def _forget_cancelled(self, future: Future[Any]) -> None:
        if future.cancelled():
            with self._changed:
                self._jobs = deque(job for job in self._jobs if job[0] is not future)

    def _work(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Run the next call. A separate function, so that an idle thread keeps nothing of its last call alive."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            if not self._jobs:
                return False
            future, call = self._jobs.popleft()
            self._running += 1
        begun = future.set_running_or_notify_cancel()
        result, error = None, None
        try:
            result = call() if begun else None
        except BaseException as caught:
            error = caught
        with self._changed:  # before the result is seen: whoever waits for it may submit the next call
            self._running -= 1
        if error is not None:
            future.set_exception(error)
        elif begun:
            future.set_result(result)
        return True
