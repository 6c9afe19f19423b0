"""Real servers on free ports of this machine, for as long as a test needs them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.proxy.activity import counted
from drsr.proxy.app import ProxyApp
from drsr.proxy.http.forwarding import Parts
from drsr.proxy.server import address_of, bind, make_server
from drsr.proxy.settings import ProxySettings, UpstreamUrl

PATIENCE = 30.0
"""Seconds before a test gives up on something that should have happened. No test is about how long it takes."""


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def running(server: uvicorn.Server, bound: socket.socket) -> Iterator[str]:
    """The server's address while it runs in a thread of its own."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        assert eventually(lambda: server.started), "the server did not start"
        yield address_of(bound)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        bound.close()
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def running_app(app: Any) -> Iterator[str]:
    """Any ASGI application on a free port."""
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", http="h11", timeout_graceful_shutdown=1)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the double hangs up on purpose
    with running(uvicorn.Server(config), bind("127.0.0.1", 0)) as address:
        yield address


@dataclass
class RunningProxy:
    """A proxy that can be talked to."""

    address: str
    app: ProxyApp
    kill_file: Path

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def parts(self) -> Parts:
        assert self.app.parts is not None
        return self.app.parts

    def count(self, name: str, *labels: str) -> float:
        """The value of one of the activity's counters."""
        return float(counted(getattr(self.app.activity, name)).get(labels, 0))


@contextmanager
def running_proxy(
    upstream: str, folder: Path, *, policy: Policy | None = None, **settings: Any
) -> Iterator[RunningProxy]:
    """A proxy in front of an upstream, with the scripted policy where no other is given, and patient."""
    settings = {"kill_file": folder / "off", "deadline": PATIENCE, **settings}
    app = ProxyApp(policy or scripted_policy(), ProxySettings(upstream=UpstreamUrl.parse(upstream), **settings))
    with running(make_server(app, grace=1), bind("127.0.0.1", 0)) as address:
        yield RunningProxy(address, app, settings["kill_file"])
