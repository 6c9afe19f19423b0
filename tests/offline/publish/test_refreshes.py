"""Whether there is anything new: what waits, and a stamp that changes with all that a policy is made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy import select

from drsr.backbone.catalogue import load_backbone
from drsr.offline.catalog.feature_tables import FeatureFile
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.params import Params
from drsr.offline.publish.refreshes import (
    NewLabels,
    Refresh,
    Refreshed,
    Waiting,
    last_refresh,
    new_labels,
    note_refresh,
    stamp,
    waiting,
)
from drsr.offline.store.place import Place
from drsr.request.view import caps_for
from drsr.settings import Settings
from tests.offline.small_pipeline import Pipeline, add_runs, featurize, quick_params

PLAIN = Refreshed("default", "default", certified=False)


def stamp_of(pipeline: Pipeline, params: Params | None = None, *, certified: bool = False) -> str:
    numbers = params or quick_params()
    found = stamp(pipeline.catalog, numbers, PLAIN._replace(certified=certified))
    assert found is not None
    return found


def left(pipeline: Pipeline) -> Waiting:
    settings = Settings(
        pipeline.settings["DRSR_CATALOG_URL"], pipeline.settings["DRSR_ARTIFACT_ROOT"], pipeline.backbone
    )
    return waiting(Place(settings, pipeline.catalog, pipeline.artifacts), view="default", labeler="default")


def test_nothing_waits_after_all_stages_and_new_runs_do(pipeline: Pipeline) -> None:
    assert left(pipeline) == (0, 0, 0)
    before = stamp_of(pipeline)
    assert stamp_of(pipeline) == before
    add_runs(pipeline.catalog, pipeline.artifacts, pipeline.folder, first=100, runs={"test": 1})
    assert left(pipeline) == (1, 0, 0)
    assert stamp_of(pipeline) != before


def test_labels_that_the_latest_scorer_has_not_seen(pipeline: Pipeline) -> None:
    def new() -> NewLabels | None:
        return new_labels(pipeline.catalog, "default", "default")

    def change(statement: str) -> None:
        with pipeline.catalog.writing() as connection:
            connection.exec_driver_sql(statement)

    before = new()
    assert before is not None
    seen = before.seen
    assert seen > 1
    assert before == NewLabels(0, others_gone=False, seen=seen)
    assert new_labels(pipeline.catalog, "light", "default") is None, "nothing was trained on that view"
    mine = "SELECT max(m.state_id) FROM state_measurement m JOIN decision_state s ON s.id = m.state_id"
    mine += " JOIN trajectory t ON t.id = s.trajectory_id WHERE t.split = 'train'"
    change(f"UPDATE state_measurement SET measured_at = '2999-01-01 00:00:00' WHERE state_id = ({mine})")
    assert new() == NewLabels(1, others_gone=True, seen=seen), (
        "it read as many states as there are, and one of them is new"
    )
    change("UPDATE split_read SET states = states - 1 WHERE split = 'train' AND purpose = 'train'")
    found = new()
    assert found == NewLabels(1, others_gone=False, seen=seen - 1)
    assert found is not None
    assert (found.are_too_few(2), found.are_too_few(1)) == (True, False)
    assert found.waiting(1_000) == "1 new labelled states wait for training, which begins with 1,000"
    half = NewLabels(9, others_gone=False, seen=1_001)
    assert (half.needed("0.9%"), half.needed("500")) == (10, 500)
    assert half.waiting("0.9%").endswith("which begins with 10 (0.9% of 1,001)")
    assert not NewLabels(1, others_gone=True).are_too_few(2), "a scorer of withdrawn runs is trained again"


def test_features_that_are_gone_wait(pipeline: Pipeline) -> None:
    with pipeline.catalog.reading() as connection:
        for blob in connection.execute(select(FeatureFile.blob)).scalars():
            (pipeline.folder / "artifacts" / blob[:2] / blob).unlink()
    assert left(pipeline).unfeaturized > 0
    loaded = load_backbone(pipeline.backbone)
    featurize(pipeline.catalog, pipeline.artifacts, loaded, caps_for(loaded.window))  # type: ignore[arg-type]
    assert left(pipeline) == (0, 0, 0)


def test_parameters_and_mode_are_in_the_stamp(pipeline: Pipeline) -> None:
    params = quick_params()
    other = replace(params, train=replace(params.train, patience=params.train.patience + 1))
    stamps = {stamp_of(pipeline), stamp_of(pipeline, other), stamp_of(pipeline, certified=True)}
    assert len(stamps) == 3


def test_without_labels_there_is_no_stamp(tmp_path: Path) -> None:
    with open_catalog(f"sqlite:///{tmp_path}/catalog.sqlite", create=True) as catalog:
        assert stamp(catalog, quick_params(), PLAIN) is None


def test_the_newest_end_of_the_same_counts(pipeline: Pipeline) -> None:
    """Plain and certified refreshes of one catalog do not void each other."""
    certified = PLAIN._replace(certified=True)
    assert last_refresh(pipeline.catalog, PLAIN) is None
    for number in (1, 2):
        note_refresh(pipeline.catalog, PLAIN, Refresh(f"stamp {number}", {"published": True, "version": str(number)}))
    note_refresh(pipeline.catalog, certified, Refresh("stamp 3", {"published": False}))
    assert last_refresh(pipeline.catalog, PLAIN) == Refresh("stamp 2", {"published": True, "version": "2"})
    assert last_refresh(pipeline.catalog, certified) == Refresh("stamp 3", {"published": False})
    assert last_refresh(pipeline.catalog, PLAIN._replace(view="other")) is None
