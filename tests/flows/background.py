"""Long-running processes of a test: started with a log file, ended by their ids, and what they started as well."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240.0
"""For whatever takes seconds on an idle machine; only a failure waits so long."""
Found = TypeVar("Found")


class Background:
    """A process that was started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        leash = [sys.executable, "-m", "tests.flows.leashed"]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*leash, *command], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def words(self) -> str:
        """The end of what it said."""
        return self.log.read_text(errors="replace")[-4_000:]

    def tree(self) -> list[int]:
        """Ids of the process and of everything below it."""
        return [self.process.pid, *descendants(self.process.pid)]

    def kill(self) -> list[int]:
        """As when its machine is lost: it and all below it at once, without a chance to say anything."""
        killed = self.tree()
        for pid in killed:
            send(pid, signal.SIGSTOP)  # so that nobody sees the others end
        for pid in killed:
            send(pid, signal.SIGKILL)
        self.process.wait()
        return killed

    def stop(self) -> None:
        """Ask it to end; if it does not, make it."""
        below = descendants(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in below:
            send(pid, signal.SIGKILL)


@contextmanager
def background(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Background]:
    started = Background(command, environment, log)
    try:
        yield started
    finally:
        started.stop()


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Ids of all processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def wait_for(
    what: str, look: Callable[[], Found | None], *, seconds: float = PATIENCE_SECONDS, pause: float = 0.25
) -> Found:
    """The first thing that is neither None nor False nor empty."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(pause)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")
