"""Models for the tests of this folder, each made or fetched once per test process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drsr.backbone import embedded, installing, load_backbone
from drsr.request.contracts import Backbone
from tests.backbone.small_gguf import write_small_gguf
from tests.tiny_models import Architecture, build_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Architecture], Path]:
    """Gives the folder of a tiny model. Shared: a test that changes files takes a copy."""
    root = tmp_path_factory.mktemp("tiny")

    def folder(architecture: Architecture) -> Path:
        place = root / architecture
        return place if place.exists() else build_tiny(architecture, place)

    return folder


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The converted embedded model in the cache of this machine; quick once it is there. Never to be changed."""
    return installing.fetch(embedded.MODEL)


@pytest.fixture(scope="session")
def smollm2_loaded(smollm2: Path) -> Backbone:
    """The embedded model, loaded."""
    return load_backbone("smollm2-135m")


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The GGUF file of the embedded model, downloaded and verified, alone in its folder."""
    return embedded.gguf_file(embedded.MODEL, tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="session")
def small_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model as a GGUF file, alone in its folder."""
    return write_small_gguf(tmp_path_factory.mktemp("small_gguf") / "small.gguf")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test alone."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DRSR_CACHE", str(folder))
    return folder
