"""Frameworks at rest: nothing is fetched, traced or reported while they are imported and tested."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from drsr.sessions.prices import Prices

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


@pytest.fixture(autouse=True)
def _provider_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests join a short run in its middle, where re-writing a cache would not pay; that is tested elsewhere."""
    monkeypatch.setattr("drsr.sessions.pruning_session.RELATIVE", Prices(1, 1, 1, 1))


@pytest.fixture(autouse=True)
def _event_loop_of_sync_calls() -> Iterator[None]:
    """Frameworks with synchronous doors to async rooms take the thread's loop, and leave closing it to its owner."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)
