"""Places of catalog and artifacts in a flow run: the settings of the machine that runs it, never its parameters.

A parameter is shown to everybody who may see the run; a database's password must not be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from drsr.flows.faults import patiently
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from drsr.settings import Settings, load_settings


class Place(NamedTuple):
    settings: Settings
    catalog: Catalog
    artifacts: ArtifactStore


@contextmanager
def opened(*, create: bool = False) -> Iterator[Place]:
    """Catalog and artifact store of this machine's settings. With `create`, a catalog that is not there is made."""
    settings = load_settings()
    with open_catalog(settings.catalog_url, create=create) as catalog:
        yield Place(settings, catalog, ArtifactStore(settings.artifact_root))


@contextmanager
def patiently_opened() -> Iterator[Place]:
    """The same outside of a task, which would be tried again: a catalog that does not answer at first is waited for."""
    with ExitStack() as stack:
        yield patiently(lambda: stack.enter_context(opened()))
