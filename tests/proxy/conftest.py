"""The double of an upstream and a proxy in front of it, on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.proxy.running import RunningProxy, running_app, running_proxy
from tests.proxy.scripted_upstream import ScriptedUpstream

StartProxy = Callable[..., RunningProxy]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="session")
def _server() -> Iterator[tuple[ScriptedUpstream, str]]:
    found = ScriptedUpstream()
    with running_app(found) as address:
        yield found, address


@pytest.fixture(scope="session")
def _shared_proxy(
    _server: tuple[ScriptedUpstream, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    with running_proxy(_server[1], tmp_path_factory.mktemp("proxy")) as opened:
        yield opened


@pytest.fixture
def upstream(_server: tuple[ScriptedUpstream, str]) -> Iterator[ScriptedUpstream]:
    """The double, which has seen nothing yet."""
    _server[0].forget()
    yield _server[0]
    _server[0].gate.set()


@pytest.fixture
def upstream_url(upstream: ScriptedUpstream, _server: tuple[ScriptedUpstream, str]) -> str:
    return _server[1]


@pytest.fixture
def start_proxy(upstream_url: str, tmp_path: Path, stack: ExitStack) -> StartProxy:
    """Starts a proxy of the test's own with the settings given; `upstream` is the double unless said."""

    def start(**settings: Any) -> RunningProxy:
        url = settings.pop("upstream", upstream_url)
        opened: AbstractContextManager[RunningProxy] = running_proxy(url, tmp_path, **settings)
        return stack.enter_context(opened)

    return start


@pytest.fixture
def proxy(_shared_proxy: RunningProxy, upstream: ScriptedUpstream) -> Iterator[RunningProxy]:
    """A proxy with the default settings and the scripted policy. Others used it before: counters go on."""
    yield _shared_proxy
    _shared_proxy.kill_file.unlink(missing_ok=True)


@pytest.fixture
def http(stack: ExitStack) -> httpx.Client:
    """A plain client, which shows what is on the wire."""
    return stack.enter_context(httpx.Client(timeout=30, trust_env=False))
