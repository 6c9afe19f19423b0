"""What was measured on the public corpus, as it lies in the repository: sound, small, without text, and importable."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from drsr.backbone.catalogue import load_tokenizer
from drsr.expectations.frames.splits import splits_frames
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.corpus.choice import load_chosen
from drsr.offline.ingest.corpus.table import load_corpus
from drsr.offline.ingest.corpus.task_names import load_task_names
from drsr.offline.ingest.stage import admit_chosen, ingest
from drsr.offline.label.exports import import_measured
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import KEY, place_of, read_parts
from drsr.request.view import caps_for
from drsr.settings import Settings
from tests.expectations.custom.test_splits import wrong_shares
from tests.trajectory_files import trajectories_folder

MEASURED = Path(__file__).parents[3] / "corpora" / "measured"
MOST_BYTES = 60_000_000
LONGEST_STRING = 400
"""A hash, a reason or one sentence about it; a text of a run would be longer."""


def tables(stage: str) -> list[pyarrow.Table]:
    return [part.table for part in read_parts(place_of(MEASURED, stage))]


def keys(stage: str) -> set[str]:
    return {key for table in tables(stage) for key in table.column(KEY).to_pylist()}


def test_it_is_small_and_holds_no_text() -> None:
    assert 0 < sum(path.stat().st_size for path in MEASURED.rglob("*") if path.is_file()) <= MOST_BYTES
    for table in (*tables("label"), *tables("featurize")):
        for column in table.itercolumns():
            if pyarrow.types.is_string(column.type):
                assert max((len(text) for text in column.to_pylist() if text), default=0) <= LONGEST_STRING


def test_every_state_with_features_has_a_measurement_and_is_there_once() -> None:
    assert keys("featurize") <= keys("label")
    assert sum(table.num_rows for table in tables("label")) == len(keys("label"))


def test_a_catalog_that_froze_the_corpus_takes_all_of_it(tmp_path: Path) -> None:
    folder = trajectories_folder()
    if folder is None:
        pytest.skip("the runs of the public corpus are not here: drsr corpus fetch public")
    settings = Settings(
        catalog_url=f"sqlite:///{tmp_path / 'catalog.sqlite'}", artifact_root=str(tmp_path / "artifacts")
    )
    artifacts = ArtifactStore(settings.artifact_root)
    admit = admit_chosen(load_task_names("public"), load_chosen(load_corpus("public")))
    tokenizer, window = load_tokenizer(settings.backbone)
    with open_catalog(settings.catalog_url, create=True) as catalog:
        ingest(catalog, artifacts, str(folder), admit=admit)
        freeze(catalog, artifacts, tokenizer, caps_for(window))
        found = import_measured(catalog, artifacts, settings, MEASURED)
        frames = splits_frames(catalog, artifacts, ("subjects", "shares"))
    assert (found.labels.taken, found.labels.unknown) == (len(keys("label")), 0)
    assert (found.features.taken, found.features.unknown) == (len(keys("featurize")), 0)
    assert frames["subjects"].empty  # nothing that a run is about stands on two sides of a split
    assert wrong_shares(frames["shares"]) == []
