"""Fixtures: a catalog on both databases, an artifact store, and a bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from moto.server import ThreadedMotoServer

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from tests.made_once import made_once
from tests.offline.audit import published
from tests.offline.audit.published import PublishedPipeline
from tests.offline.databases import DATABASES, fresh_database
from tests.offline.small_pipeline import Pipeline, copy_of, found, run_stages


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    """The kind of database; a test that uses any of the fixtures below runs once per kind."""
    return str(request.param)


@pytest.fixture
def empty_url(database: str, tmp_path: Path) -> Iterator[str]:
    """URL of a database without tables."""
    with fresh_database(database, tmp_path, migrated=False) as url:
        yield url


@pytest.fixture
def catalog_url(database: str, tmp_path: Path) -> Iterator[str]:
    """URL of a database at this code's revision, without rows."""
    with fresh_database(database, tmp_path, migrated=True) as url:
        yield url


@pytest.fixture
def catalog(catalog_url: str) -> Iterator[Catalog]:
    with open_catalog(catalog_url) as opened:
        yield opened


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "artifacts"))


class StorageServer:
    """A real S3 server, which can go away and come back. It keeps its buckets for as long as the process lives."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.host, self.port = self._server.get_host_and_port()

    def stop(self) -> None:
        self._server.stop()

    def start_again(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self._server.start()


@pytest.fixture
def storage_server() -> Iterator[StorageServer]:
    """A server that lives for one test."""
    server = StorageServer()
    yield server
    server.stop()


@pytest.fixture
def bucket(storage_server: StorageServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of an empty bucket on it."""
    host, port = storage_server.host, storage_server.port
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    filesystem = fsspec.filesystem("s3", skip_instance_cache=True)
    # The instances that are kept know the server of the test before.
    type(filesystem).clear_instance_cache()
    name = f"bucket-{secrets.token_hex(8)}"
    filesystem.mkdir(name)
    yield f"s3://{name}"
    type(filesystem).clear_instance_cache()


@pytest.fixture(scope="session")
def finished_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A small catalog that went through all stages before publishing. Never to be changed."""

    def make(folder: Path) -> None:
        run_stages(folder).catalog.close()

    return found(made_once(tmp_path_factory, "pipeline", make))


@pytest.fixture
def pipeline(finished_pipeline: Pipeline, tmp_path: Path) -> Iterator[Pipeline]:
    """A copy of it."""
    copied = copy_of(finished_pipeline, tmp_path / "pipeline")
    yield copied
    copied.catalog.close()


@pytest.fixture(scope="session")
def finished_release(finished_pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> PublishedPipeline:
    """The same with a published policy. Never to be changed."""

    def make(folder: Path) -> None:
        published.published(finished_pipeline, folder).pipeline.catalog.close()

    folder = made_once(tmp_path_factory, "release", make)
    return published.found(folder, found(folder / "pipeline", finished_pipeline.backbone))


@pytest.fixture
def release(finished_release: PublishedPipeline, tmp_path: Path) -> Iterator[PublishedPipeline]:
    """A copy of it."""
    copied = published.copy_of(finished_release, tmp_path / "release")
    yield copied
    copied.pipeline.catalog.close()
