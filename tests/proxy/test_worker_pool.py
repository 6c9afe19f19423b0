"""Threads with a bound: what is refused, what is cancelled, what is finished."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import Future
from typing import Any

import pytest

from drsr.proxy.worker_pool import WorkerPool
from tests.proxy.running import PATIENCE, eventually


class Gate:
    """A call that waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "done"


def submit(pool: WorkerPool, call: Any) -> Future[Any]:
    future = pool.submit(call)
    assert future is not None
    return future


def test_results_and_errors_come_back() -> None:
    pool = WorkerPool("t", 2, 100)
    futures = [submit(pool, lambda number=number: 10 // number) for number in range(50)]
    assert isinstance(futures[0].exception(PATIENCE), ZeroDivisionError)
    assert [future.result(PATIENCE) for future in futures[1:]] == [10 // number for number in range(1, 50)]
    pool.close(finish=True)
    assert pool.submit(lambda: 1) is None


def test_a_full_queue_refuses() -> None:
    pool, gate = WorkerPool("t", 1, 1), Gate()
    first = submit(pool, gate)
    assert gate.begun.wait(PATIENCE)
    second = submit(pool, lambda: "second")
    assert (pool.running, pool.waiting) == (1, 1)
    assert pool.submit(lambda: "third") is None
    gate.go.set()
    assert (first.result(PATIENCE), second.result(PATIENCE)) == ("done", "second")
    assert submit(pool, lambda: "fourth").result(PATIENCE) == "fourth"
    pool.close(finish=True)


def test_without_a_queue_an_idle_worker_is_always_found() -> None:
    """Whoever has its result may submit the next call at once."""
    pool = WorkerPool("t", 1, 0)
    for number in range(500):
        assert submit(pool, lambda number=number: number).result(PATIENCE) == number
    pool.close(finish=True)


def test_what_is_cancelled_makes_room_and_is_forgotten() -> None:
    class Body:
        pass

    gc.freeze()  # what other tests loaded: looking through it takes a second
    pool, gate, body = WorkerPool("t", 1, 1), Gate(), Body()
    seen = weakref.ref(body)
    submit(pool, gate)
    assert gate.begun.wait(PATIENCE)
    waiting = submit(pool, lambda body=body: body)
    del body
    assert waiting.cancel()
    assert pool.waiting == 0
    gc.collect()
    assert seen() is None
    later = submit(pool, lambda: "later")
    gate.go.set()
    assert later.result(PATIENCE) == "later"
    pool.close(finish=True)


def test_an_idle_worker_keeps_nothing_alive() -> None:
    class Body:
        pass

    gc.freeze()  # what other tests loaded: looking through it takes a second
    pool, body = WorkerPool("t", 1, 0), Body()
    seen = weakref.ref(body)
    submit(pool, lambda body=body: None).result(PATIENCE)
    del body
    assert eventually(lambda: gc.collect() >= 0 and seen() is None)
    pool.close(finish=True)


@pytest.mark.parametrize("finish", [True, False])
def test_closing_finishes_or_drops_what_waits(finish: bool) -> None:
    pool, gate = WorkerPool("t", 1, 5), Gate()
    first = submit(pool, gate)
    assert gate.begun.wait(PATIENCE)
    rest = [submit(pool, lambda number=number: number) for number in range(3)]
    threading.Timer(0.05, gate.go.set).start()
    pool.close(finish=finish)
    assert first.result(0) == "done"
    assert [future.cancelled() for future in rest] == [not finish] * 3
