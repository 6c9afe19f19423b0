"""The name of a process that works on a catalog, and whether it is certainly gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_worker() -> str:
    """Host, process id and the process's start: process ids are used again, the three together are not."""
    return f"{_this_host()}/{os.getpid()}/{_started(os.getpid())}"


def is_gone(worker: str) -> bool:
    """Return True only when the worker ran on this host and its process certainly no longer exists."""
    host, pid, started = worker.rsplit("/", 2)
    return host == _this_host() and _started(int(pid)) != started


def _this_host() -> str:
    """Return the host within which a process id is unique: containers may share a name and still count their own."""
    try:
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # without /proc
        return socket.gethostname()


def _started(pid: int) -> str:
    """Return the start of a process, in the kernel's own unit; `gone` if it has ended, `unknown` without /proc."""
    if not Path("/proc/self/stat").exists():
        return "unknown"
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return "gone" if fields[0] in "ZX" else fields[19]
