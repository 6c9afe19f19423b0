"""Hypothesis profiles: fixed examples for `make test`, fresh ones for `make fuzz`, which sets DRSR_FUZZ_EXAMPLES.

And nothing phones home, also where tests are run without the Makefile, which says the same.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.longest_first import longest_first
from tests.processor_time import ProcessorTime
from tests.real_browser import Browser, find_browser

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "AWS_EC2_METADATA_DISABLED": "true",
}
os.environ.update(QUIET)
# Read when torch is first imported. The test processes share the cores as it is: two threads in each of them, and in
# each process that they start, would spend their time waiting for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Dozens of processes import the same modules: what one has compiled is there for the next.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
# Whoever asks for more examples than usual wants to see new ones; a failure prints how to see it again.
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fresh" if "DRSR_FUZZ_EXAMPLES" in os.environ else "fixed")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessorTime())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is imported here out of every later search for garbage: millions of objects that never become any.

    What tests import and load themselves is as good as that, and looking through it again and again took a seventh of
    their time: look seldom.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = [
            items[number] for number in longest_first([item.nodeid.partition("::")[0] for item in items], processes)
        ]


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(find_browser(), tmp_path)
