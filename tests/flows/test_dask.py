"""Labels over a Dask cluster are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.flows.parameters import FanOut, Part
from drsr.flows.stages.label import label
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from tests.flows.made_up_runs import ROOT, write_runs
from tests.flows.test_team import fill, labels_of, labels_of_one_process


@pytest.mark.filterwarnings("default")  # a cluster's own, when it ends
@pytest.mark.timeout(600)
def test_labels_over_dask(
    tmp_path: Path, prefect_server: None, tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = write_runs(tmp_path / "runs")
    url, artifacts = f"sqlite:///{tmp_path}/catalog.sqlite", str(tmp_path / "artifacts")
    settings = {"DRSR_CATALOG_URL": url, "DRSR_ARTIFACT_ROOT": artifacts, "DRSR_BACKBONE": tiny_model}
    for name, value in {**settings, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    with open_catalog(url, create=True) as catalog:
        fill(catalog, ArtifactStore(artifacts), runs, tiny_model)
        done = label(Part(), FanOut(over="dask", processes=1, states_per_shard=8))
        assert done["shards"] == 2
        assert labels_of(catalog) == labels_of_one_process(tmp_path / "alone", runs, tiny_model)
        assert done["states"] == 16
