"""What was measured on the public corpus, as it lies in the repository: sound, small, without text, and importable."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from drsr.backbone.catalogue import load_tokenizer
from drsr.expectations.frames.splits import splits_frames
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.exports import FURTHER
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.absent_texts import absent_texts
from drsr.offline.ingest.corpus.choice import load_chosen
from drsr.offline.ingest.corpus.table import licences_of_sources, load_corpus
from drsr.offline.ingest.corpus.task_names import load_task_names
from drsr.offline.ingest.splits import assign_split, group_key
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


FEATURES = place_of(MEASURED, "featurize")
VIEWS = {"default": FEATURES} | {path.name: path for path in sorted(FEATURES.iterdir()) if path.is_dir()}


def tables(stage: str) -> list[pyarrow.Table]:
    return tables_in(place_of(MEASURED, stage))


def tables_in(folder: Path) -> list[pyarrow.Table]:
    return [part.table for part in read_parts(folder)]


def keys(stage: str) -> set[str]:
    return {key for table in tables(stage) for key in table.column(KEY).to_pylist()}


def test_it_is_small_and_holds_no_text() -> None:
    assert 0 < sum(path.stat().st_size for path in MEASURED.rglob("*") if path.is_file()) <= MOST_BYTES
    views = [table for folder in VIEWS.values() for table in tables_in(folder)]
    for table in (*tables("ingest"), *tables("freeze"), *tables("label"), *views):
        for column in table.itercolumns():
            if pyarrow.types.is_string(column.type):
                assert max((len(text) for text in column.to_pylist() if text), default=0) <= LONGEST_STRING


def test_every_state_with_features_has_a_measurement_and_is_there_once() -> None:
    assert keys("featurize") <= keys("label") <= keys("freeze")
    assert sum(table.num_rows for table in tables("label")) == len(keys("label"))


def test_every_feature_view_has_the_labelled_states() -> None:
    assert {"default", "light"} <= VIEWS.keys() <= {"default", *FURTHER}
    labelled = {
        row["state_key"] for table in tables("label") for row in table.to_pylist() if row["outcome"] == "labelled"
    }
    for view in ("default", "light"):
        assert labelled <= {key for table in tables_in(VIEWS[view]) for key in table.column(KEY).to_pylist()}, view


def test_its_runs_are_those_of_the_corpus_with_its_splits_and_licences() -> None:
    names, chosen, licences = load_task_names("public"), load_chosen(load_corpus("public")), licences_of_sources()
    runs = [run for table in tables("ingest") for run in table.to_pylist()]
    assert {(run["source"], run["external_id"]) for run in runs} == chosen.keys()
    for run in runs:
        placed = chosen[run["source"], run["external_id"]]
        assert run["group_key"] == group_key("", "", placed.group)
        named = names.find_named(run["source"], run["task"])
        by_table = None if named is None else named.split
        assert run["split"] == (by_table or assign_split(run["group_key"]))
        assert (run["domain"], run["licence"]) == (placed.domain, licences[run["source"]])


def test_an_empty_catalog_takes_all_of_it_without_a_text(tmp_path: Path) -> None:
    settings = Settings(
        catalog_url=f"sqlite:///{tmp_path / 'catalog.sqlite'}", artifact_root=str(tmp_path / "artifacts")
    )
    with open_catalog(settings.catalog_url, create=True) as catalog:
        found = import_measured(catalog, ArtifactStore(settings.artifact_root), settings, MEASURED)
        with catalog.reading() as connection:
            absent = absent_texts(connection)
        frames = splits_frames(catalog, ArtifactStore(settings.artifact_root), ("trajectories", "places"))
    assert found.runs is not None
    assert (found.runs.states, found.labels.taken) == (len(keys("freeze")), len(keys("label")))
    assert found.runs.taken == absent.runs == absent.of
    assert found.labels.unknown == found.features.unknown == 0
    assert {view: imported.unknown for view, imported in found.further.items()} == dict.fromkeys(
        VIEWS.keys() - {"default"}, 0
    )
    assert absent.hint == "drsr corpus fetch public && drsr ingest --corpus public"
    assert frames["trajectories"].groupby("trajectory")["split"].nunique().max() == 1


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
