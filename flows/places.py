"""Places of catalog and artifacts in a flow run: the settings of the machine that runs it, never its parameters.

A parameter is shown to everybody who may see the run; a database's password must not be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from drsr.flows.faults import patiently
from drsr.offline.store.place import Place, opened

__all__ = ["Place", "opened", "patiently_opened"]


@contextmanager
def patiently_opened() -> Iterator[Place]:
    """The same outside of a task, which would be tried again: a catalog that does not answer at first is waited for."""
    with ExitStack() as stack:
        yield patiently(lambda: stack.enter_context(opened()))
