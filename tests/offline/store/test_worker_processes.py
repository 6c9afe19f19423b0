"""Workers that are killed, fail or are interrupted: who it was is told, and nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import CatalogUnreachable
from drsr.offline.store.worker_processes import Report, WorkerFailed, work_together


def act(order: str, report: Report) -> dict[str, Any]:
    """What an order says. In a worker process."""
    report({"states": 1, "excluded": {"some reason": 1}, "seconds": 1.0})
    what, _, more = order.partition(" ")
    if what == "die":
        os.kill(os.getpid(), int(more))
    elif what == "leave":
        os._exit(int(more))
    elif what == "fail":
        raise KeyError(more)
    elif what == "lose":
        raise CatalogUnreachable("the connection was lost", passing=True)
    elif what == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)  # as a terminal does it, to everybody at once
    elif what == "sleep":
        Path(more).write_text(str(os.getpid()))
        time.sleep(600)
    return {"states": 2, "excluded": {"some reason": 2}, "seconds": 2.0}


def together(*orders: str) -> dict[str, Any]:
    return work_together(act, orders, lambda so_far: None)


def test_a_worker_that_is_killed_is_named() -> None:
    found = together("do", f"die {signal.SIGKILL}", "leave 7")
    assert found["lost_workers"] == 2
    assert found["endings"] == [
        "worker 2 of 3 was killed by SIGKILL",
        "worker 3 of 3 ended with exit code 7 before it was done",
    ]
    assert (found["states"], found["excluded"], found["seconds"]) == (4, {"some reason": 4}, 2.0)


def test_nothing_is_said_when_all_came_to_their_end() -> None:
    assert together("do", "interrupted") == {"states": 4, "excluded": {"some reason": 4}, "seconds": 2.0}


def test_nobody_left() -> None:
    with pytest.raises(WorkerFailed, match="no worker is left: worker 1 of 2 was killed by SIGSEGV, worker 2 of 2"):
        together(f"die {signal.SIGSEGV}", f"die {signal.SIGKILL}")


@pytest.mark.parametrize("others", [("do",), ("fail a second time",)])
def test_an_error_that_nobody_expected_is_told_with_its_traceback(
    others: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WorkerFailed, match="internal error: KeyError: ") as failed:
        together("fail oh", *others)
    assert failed.value.where is not None
    assert failed.value.where.startswith("worker 1")
    assert failed.value.hint is not None
    assert "--debug" in failed.value.hint
    assert ("the others went on" in failed.value.hint) == (others == ("do",))
    assert "in act" in str(failed.value.__cause__)
    assert not failed.value.passing
    assert "Traceback" not in capfd.readouterr().err


def test_only_what_passes_for_all_of_them_passes() -> None:
    with pytest.raises(WorkerFailed, match="the connection was lost") as failed:
        together("lose", "do")
    assert failed.value.passing
    with pytest.raises(WorkerFailed) as failed:
        together("lose", "fail oh")
    assert not failed.value.passing


def test_an_interrupt_ends_the_workers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of the one who started them: they themselves do not listen to the keyboard."""
    places = [tmp_path / "1", tmp_path / "2"]

    def interrupted(so_far: dict[str, Any]) -> None:
        if so_far["states"] == 2:
            while not all(place.exists() and place.read_text() for place in places):
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_together(act, [f"sleep {place}" for place in places], interrupted)
    for place in places:
        with pytest.raises(ProcessLookupError):
            os.kill(int(place.read_text()), 0)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(tmp_path: Path, how: signal.Signals) -> None:
    """However it ends: they are no orphans that measure on for minutes."""
    places = [tmp_path / "1", tmp_path / "2"]
    orders = [f"sleep {place}" for place in places]
    code = f"from tests.offline.store.test_worker_processes import together; together(*{orders!r})"
    starter = subprocess.Popen([sys.executable, "-c", f"if __name__ == '__main__': {code}"])
    try:
        _until(lambda: all(place.exists() and place.read_text() for place in places), 120)
        starter.send_signal(how)
        starter.wait(30)
        _until(lambda: not any(Path(f"/proc/{place.read_text()}").exists() for place in places), 20)
    finally:
        starter.kill()
        for place in places:
            with suppress(ProcessLookupError, FileNotFoundError, ValueError):
                os.kill(int(place.read_text()), signal.SIGKILL)


def _until(is_so: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)
