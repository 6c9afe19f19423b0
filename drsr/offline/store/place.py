"""The place of a data team's work: its settings, its catalog and its artifact store, opened together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from drsr.settings import Settings, load_settings


class Place(NamedTuple):
    settings: Settings
    catalog: Catalog
    artifacts: ArtifactStore


@contextmanager
def opened(settings: Settings | None = None, *, create: bool = False) -> Iterator[Place]:
    """Open the place of some settings, by default this machine's. With `create`, a missing catalog is made."""
    settings = settings or load_settings()
    with open_catalog(settings.catalog_url, create=create) as catalog:
        yield Place(settings, catalog, ArtifactStore(settings.artifact_root))
