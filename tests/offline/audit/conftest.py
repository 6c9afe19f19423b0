"""A published policy to audit, made once, and copies of it to be tampered with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline.audit.published import PublishedPipeline, copy_of, published
from tests.offline.small_pipeline import Pipeline


@pytest.fixture(scope="session")
def finished_release(finished_pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> PublishedPipeline:
    """A small catalog with a published policy. Never to be changed."""
    release = published(finished_pipeline, tmp_path_factory.mktemp("release"))
    release.pipeline.catalog.close()
    return release


@pytest.fixture
def release(finished_release: PublishedPipeline, tmp_path: Path) -> Iterator[PublishedPipeline]:
    """A copy of it."""
    copied = copy_of(finished_release, tmp_path / "release")
    yield copied
    copied.pipeline.catalog.close()
