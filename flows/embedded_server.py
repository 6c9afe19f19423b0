"""A Prefect server for one run on one machine: started, waited for, and ended with the run.

What it says goes to a file. A server that ends right after many tasks complains at length about work that nobody waits
for any more; none of it is of use to whoever ran a flow.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from drsr.errors import DrsrError

START_SECONDS = 180.0
"""The first start creates the server's database, which takes some twenty seconds on a busy machine."""
STOP_SECONDS = 20.0
_UNUSED = ("SCHEDULER", "LATE_RUNS", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS", "FOREMAN", "REPOSSESSOR")
"""Services of the server that a single run has no use for."""


class ServerNotStarted(DrsrError):
    """The embedded Prefect server did not come up."""


@contextmanager
def embedded_server(home: Path, meanwhile: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Run a server that keeps its database and its log in a folder; give its API's URL.

    It takes seconds to start; `meanwhile` is called in them.
    """
    home.mkdir(parents=True, exist_ok=True)
    log = home / "server.log"
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "drsr.flows.embedded_server", str(port)]
    with log.open("ab") as file:
        process = subprocess.Popen(command, env=_environment(home), stdout=file, stderr=file, stdin=subprocess.PIPE)
    try:
        meanwhile()
        _wait_for(process, url, log)
        yield url
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def with_embedded_server(home: Path, meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Run the flows of this process on their own server within the block. Once per process, because Prefect keeps
    clients."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with (
        embedded_server(home, meanwhile) as url,
        # Nobody waits for the heartbeats of a process that the caller sees end, and stopping them takes a second each.
        temporary_settings({PREFECT_API_URL: url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),
    ):
        try:
            yield
        finally:
            # What is still to be sent goes out now: later there is nobody to send it to, and trying takes minutes.
            APILogWorker.drain_all(timeout=STOP_SECONDS)
            EventsWorker.drain_all(timeout=STOP_SECONDS)


def _environment(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    return {
        **inherited,
        "PREFECT_HOME": str(home.absolute()),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home.absolute()}/prefect.db",
        "PREFECT_SERVER_UI_ENABLED": "false",
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _UNUSED},
    }


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    what = "did not answer in time" if process.poll() is None else f"ended with exit code {process.returncode}"
    hint = "look into that file; or start a server yourself and set PREFECT_API_URL"
    raise ServerNotStarted(f"the embedded Prefect server {what}", where=str(log), hint=hint)


def serve(port: int) -> None:
    """Run the server in this process until standard input closes: it ends with its parent, even if that is killed."""
    import uvicorn

    threading.Thread(target=_end_with_input, daemon=True).start()
    uvicorn.run("prefect.server.api.server:create_app", factory=True, host="127.0.0.1", port=port, log_level="error")


def _end_with_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    serve(int(sys.argv[1]))
