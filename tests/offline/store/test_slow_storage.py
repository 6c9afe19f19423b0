"""Storage of which every call takes long: few calls, many at a time, and nothing is taken for a failure.

Calls are counted on a real S3 server behind a proxy that lets each wait. What a night costs in seconds is in
docs/benchmarks.md; here it is that calls are a fixed number per new run and per night, however much there is already.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize import upkeep
from drsr.offline.featurize.exports import export_features
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.near_duplicates import leaked_pairs
from drsr.offline.ingest.recorder import IngestSummary
from drsr.offline.ingest.stage import ingest
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import kept_here
from drsr.request.view import caps_for
from tests.offline.chat_files import chat
from tests.offline.conftest import StorageServer
from tests.offline.slow_storage import SlowStorageDouble
from tests.tiny_models import build_tiny

DELAY = 0.02


@pytest.fixture
def storage(storage_server: StorageServer, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStorageDouble]:
    double = SlowStorageDouble(f"http://{storage_server.host}:{storage_server.port}", DELAY)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", double.url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # a call that was taken for a failure would show
    type(fsspec.filesystem("s3")).clear_instance_cache()
    yield double
    type(fsspec.filesystem("s3")).clear_instance_cache()
    double.stop()


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    with open_catalog(f"sqlite:///{tmp_path}/catalog.sqlite", create=True) as opened:
        yield opened


@pytest.fixture
def artifacts(storage: SlowStorageDouble, bucket: str) -> ArtifactStore:
    return ArtifactStore(f"{bucket}/store")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> FrozenLM:
    loaded = load_backbone(f"path:{build_tiny('llama', tmp_path_factory.mktemp('model'))}")
    assert isinstance(loaded, FrozenLM)
    return loaded


def add(bucket: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        run = chat(number, steps=6) | {"task": f"task-{number}"}
        fsspec.filesystem("s3").pipe_file(f"{bucket}/runs/{number:03}.json", json.dumps(run).encode())


def test_calls_are_few_and_do_not_grow_with_the_catalog(
    catalog: Catalog, artifacts: ArtifactStore, storage: SlowStorageDouble, bucket: str, backbone: FrozenLM
) -> None:
    def night() -> tuple[IngestSummary, dict[str, Counter[str]]]:
        storage.taken()
        calls: dict[str, Counter[str]] = {}
        summary = ingest(catalog, artifacts, f"{bucket}/runs")
        calls["ingest"] = Counter(storage.taken())
        leaked_pairs(catalog, artifacts, kept=kept_here())
        calls["judge"] = Counter(storage.taken())
        freeze(catalog, artifacts, backbone.tokenizer, caps_for(backbone.window))
        calls["freeze"] = Counter(storage.taken())
        return summary, calls

    nights = []
    for first in range(0, 36, 12):
        add(bucket, first, 12)
        summary, calls = night()
        assert (summary.added, summary.quarantined) == (12, {})
        nights.append(calls)
    # One more read of a source than it has new files: the first of a folder shows whether it is one of events.
    assert nights[0]["ingest"]["GET runs"] == 13
    assert nights[1] == nights[2], "what costs the same work costs the same calls"
    assert nights[1]["ingest"] <= Counter({"GET runs": 13, "HEAD runs": 1, "list": 4, "PUT store": 1, "GET store": 12})
    assert nights[1]["judge"] <= Counter({"GET store": 12, "list": 1})
    assert nights[1]["freeze"] == Counter({"GET store": 12})
    summary, quiet = night()
    assert (summary.added, summary.unchanged_files) == (0, 36)
    assert quiet["ingest"] <= Counter({"GET runs": 1, "HEAD runs": 1, "list": 4})
    assert quiet["judge"] <= Counter({"list": 1})
    assert quiet["freeze"] == Counter()


def test_reads_go_side_by_side(
    catalog: Catalog, artifacts: ArtifactStore, storage: SlowStorageDouble, bucket: str, backbone: FrozenLM
) -> None:
    add(bucket, 0, 12)
    work: dict[str, Callable[[], object]] = {
        "ingest": lambda: ingest(catalog, artifacts, f"{bucket}/runs"),
        "judge": lambda: leaked_pairs(catalog, artifacts, kept=None),
        "freeze": lambda: freeze(catalog, artifacts, backbone.tokenizer, caps_for(backbone.window)),
    }
    for name, act in work.items():
        storage.taken()
        act()
        assert storage.most_at_once >= 4, name


def test_labels_and_features(
    catalog: Catalog,
    artifacts: ArtifactStore,
    storage: SlowStorageDouble,
    bucket: str,
    backbone: FrozenLM,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run is read once to be measured, and its features are written once; what is merged is read side by side."""
    caps, scorer = caps_for(backbone.window), TargetNll(backbone)
    per_night = []
    for first in (0, 2):
        add(bucket, first, 2)
        ingest(catalog, artifacts, f"{bucket}/runs")
        freeze(catalog, artifacts, backbone.tokenizer, caps)
        storage.taken()
        label(catalog, artifacts, scorer, label_run(scorer, "float32", caps))
        per_night.append(storage.taken())
    # The second run is on its way while the first one is measured.
    assert per_night == [["GET store", "GET store", "PUT store", "PUT store"]] * 2
    storage.taken()
    run = featurize_run(backbone, "float32", caps)
    materialize(catalog, artifacts, backbone, run)
    assert Counter(storage.taken()) == Counter({"list": 1}), "measuring has collected them"
    exported = export_features(catalog, artifacts, tmp_path / "exports", "default", replace=False)
    assert (exported.states, storage.most_at_once > 1) == (8, True)
    assert Counter(storage.taken()) == Counter({"GET store": 4})
    monkeypatch.setattr(upkeep, "ENOUGH", 2)
    materialize(catalog, artifacts, backbone, run)


def test_an_object_that_storage_forgets_comes_back_from_the_source(
    catalog: Catalog, artifacts: ArtifactStore, storage: SlowStorageDouble, bucket: str, backbone: FrozenLM
) -> None:
    add(bucket, 0, 2)
    ingest(catalog, artifacts, f"{bucket}/runs")
    add(bucket, 2, 2)
    ingest(catalog, artifacts, f"{bucket}/runs")
    packs = artifacts.stored()
    artifacts.delete(packs[0])
    named = freeze(catalog, artifacts, backbone.tokenizer, caps_for(backbone.window))
    assert (named.frozen, len(named.damaged)) == (2, 2)
    assert all("is missing" in each for each in named.damaged)
    storage.taken()
    again = ingest(catalog, artifacts, f"{bucket}/runs")
    assert (again.added, again.superseded, again.unchanged_files) == (0, 0, 2)
    assert Counter(storage.taken())["PUT store"] == 1
    assert freeze(catalog, artifacts, backbone.tokenizer, caps_for(backbone.window)).frozen == 2
