"""Exports of the stages: the same facts as the catalog has, the same bytes again, and nothing mixed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson
import pyarrow.parquet
import pytest
from sqlalchemy import select, update

from drsr.backbone.catalogue import load_backbone
from drsr.errors import InputError, ScorerNotTrained, SettingsError
from drsr.offline.audit.release import gated_order
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Trajectory
from drsr.offline.evaluate.stage import evaluate_ablations, latest_evaluation
from drsr.offline.freeze.exports import current_trajectories, latest_rule
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.stage import freeze
from drsr.offline.stage_exports import SUMMARY, Exporter
from drsr.offline.stages import NAMES
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import CONTENTS, place_of, read_parts
from drsr.offline.train.ablations import FULL
from drsr.offline.train.metrics import Bootstrap
from drsr.request.view import Caps
from drsr.scorer.weights import read_scorer
from tests.offline.small_pipeline import RUNS, Pipeline, add_runs, publish_quickly, quick_params


def exporter(pipeline: Pipeline, root: Path, *, may_replace: bool = False) -> Exporter:
    return Exporter(pipeline.catalog, pipeline.artifacts, quick_params(), root, may_replace=may_replace)


def content(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def evaluated(pipeline: Pipeline) -> None:
    evaluate_ablations(
        pipeline.catalog,
        pipeline.artifacts,
        quick_params(),
        view="default",
        labeler="default",
        checkpoints=pipeline.folder / "checkpoints",
        bootstrap=Bootstrap(replicates=10),
        configurations=(FULL,),
        workers=1,
    )


def test_every_stage_has_its_export() -> None:
    assert tuple(CONTENTS) == NAMES


def test_all_stages_again_write_the_same_bytes(pipeline: Pipeline, tmp_path: Path) -> None:
    evaluated(pipeline)
    publish_quickly(pipeline, gated_order(tmp_path / "index"))
    first = exporter(pipeline, tmp_path / "out")
    done = {stage: first.export(stage) for stage in NAMES}
    for stage, found in done.items():
        assert found.folder == place_of(tmp_path / "out", stage)
        assert orjson.loads((tmp_path / "out" / stage / SUMMARY).read_bytes()) == found.summary
    there = content(tmp_path / "out")
    again = exporter(pipeline, tmp_path / "out")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for stage in NAMES:
        added = again.export(stage).added
        assert added is None or (added.part, added.states) == (None, 0)
    assert content(tmp_path / "out") == there
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())  # not even written again
    other = exporter(pipeline, tmp_path / "other")
    for stage in NAMES:
        other.export(stage)
    assert content(tmp_path / "other") == there


def test_trajectories_and_states_are_the_catalogs(pipeline: Pipeline, tmp_path: Path) -> None:
    found = {stage: exporter(pipeline, tmp_path).export(stage) for stage in ("ingest", "freeze")}
    assert found["ingest"].summary["splits"] == dict(sorted(RUNS.items()))
    runs = next(read_parts(found["ingest"].folder)).table.to_pylist()
    part = next(read_parts(found["freeze"].folder))
    states = {row["state_key"]: row for row in part.table.to_pylist()}
    with pipeline.catalog.reading() as connection:
        recorded = {
            row.external_id: (row.content_hash, row.split, row.messages)
            for row in connection.execute(select(Trajectory.__table__))
        }
        frozen = connection.execute(select(DecisionState.__table__)).all()
        blocks = connection.execute(select(Candidate.__table__).order_by(Candidate.position)).all()
    assert {row["external_id"]: (row["content_hash"], row["split"], row["messages"]) for row in runs} == recorded
    assert states.keys() == {row.state_key for row in frozen}
    assert {row["trajectory_key"] for row in runs} >= {row["trajectory_key"] for row in states.values()}
    for row in frozen:
        mine = states[row.state_key]
        assert (mine["decision_index"], mine["request_hash"]) == (row.decision_index, row.request_hash)
        of_state = [block for block in blocks if block.state_id == row.id]
        shown = [(block.direct_saving, block.text_hash, block.token_spans) for block in of_state]
        assert [(b["direct_saving"], b["text_hash"], b["token_spans"]) for b in mine["candidates"]] == shown
    assert part.about["rule_hash"] == frozen[0].rule_hash


def test_a_run_that_goes_back_to_an_earlier_version_shows(pipeline: Pipeline) -> None:
    before = current_trajectories(pipeline.catalog)
    with pipeline.catalog.writing() as connection:
        connection.execute(update(Trajectory).where(Trajectory.id == 1).values(content_hash="0" * 64))
    after = current_trajectories(pipeline.catalog)
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_a_second_night_adds_a_part(pipeline: Pipeline, tmp_path: Path) -> None:
    exporter(pipeline, tmp_path / "out").export("ingest")
    first = content(tmp_path / "out" / "ingest" / "trajectories")
    add_runs(pipeline.catalog, pipeline.artifacts, tmp_path, first=500, runs={"train": 2})
    added = exporter(pipeline, tmp_path / "out").export("ingest").added
    assert added is not None
    assert (added.states, added.there) == (2, sum(RUNS.values()))
    assert first.items() <= content(tmp_path / "out" / "ingest" / "trajectories").items()


def test_the_scorer_and_its_operating_point_can_be_read_again(pipeline: Pipeline, tmp_path: Path) -> None:
    found = {stage: exporter(pipeline, tmp_path).export(stage) for stage in ("train", "calibrate")}
    facts = orjson.loads((found["train"].folder / "scorer.json").read_bytes())
    weights = (found["train"].folder / "scorer.safetensors").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == facts["weights"] == found["train"].summary["weights"]
    assert read_scorer(weights, facts["layout_hash"], "export").layout_hash == facts["layout_hash"]
    assert not {"id", "seconds", "trained_at", "view_id"} & facts.keys()  # nothing of when and where
    history = (found["train"].folder / "history.csv").read_text().splitlines()
    assert history[0] == "seed,epoch,loss,unsafe_auroc,pair_accuracy,negative_brier"
    assert len(history) > len(facts["seeds"])
    point = orjson.loads((found["calibrate"].folder / "calibration.json").read_bytes())
    assert point["risk_threshold"] == pipeline.calibration.risk_threshold
    assert point["training_run"] == facts["run_key"]
    table = (found["calibrate"].folder / "search_table.csv").read_bytes()
    assert table == pipeline.artifacts.get(pipeline.calibration.search_table)


def test_the_released_policy_is_the_wheel(pipeline: Pipeline, tmp_path: Path) -> None:
    found = exporter(pipeline, tmp_path / "out").export("publish")
    assert found.summary == {"version": None}  # nothing is released, and the folder says so
    for version in ("1.0", "1.1"):
        order = gated_order(tmp_path / "index", version=version)
        published = publish_quickly(pipeline, order)
        found = exporter(pipeline, tmp_path / "out").export("publish")
        names = sorted(path.name for path in found.folder.iterdir())
        assert names == sorted([f"drsr_policy-{version}-py3-none-any.whl", "release.json"])
        assert (found.folder / names[0]).read_bytes() == published.wheel.read_bytes()


def test_what_is_not_there_yet_is_said(pipeline: Pipeline, catalog: Catalog, tmp_path: Path) -> None:
    empty = Exporter(catalog, ArtifactStore(str(tmp_path / "a")), quick_params(), tmp_path / "out")
    for stage, words in {
        "freeze": "no run is frozen yet",
        "label": "has measured nothing yet",
        "evaluate": "nothing is evaluated yet",
    }.items():
        with pytest.raises(InputError, match=words):
            empty.export(stage)
    with pytest.raises(SettingsError, match="no stage is called 'polish'"):
        empty.export("polish")
    other = Exporter(pipeline.catalog, pipeline.artifacts, quick_params(max_mean_harm=0.5), tmp_path / "out")
    with pytest.raises(ScorerNotTrained, match="not calibrated yet"):  # with these parameters
        other.export("calibrate")
    assert latest_evaluation(catalog, ArtifactStore(str(tmp_path / "a"))) is None


def test_states_of_another_rule_are_refused_or_make_room(pipeline: Pipeline, tmp_path: Path) -> None:
    before = exporter(pipeline, tmp_path).export("freeze")
    with pipeline.catalog.reading() as connection:
        old = latest_rule(connection)
    tokenizer = load_backbone(pipeline.backbone).tokenizer
    freeze(pipeline.catalog, pipeline.artifacts, tokenizer, Caps(1_500, 300))
    with pipeline.catalog.reading() as connection:
        assert latest_rule(connection) != old
        assert isinstance(old, FreezingRule)
        assert connection.execute(select(FrozenTrajectory.id)).first() is not None
    with pytest.raises(InputError, match="was made with rule_hash"):
        exporter(pipeline, tmp_path).export("freeze")
    after = exporter(pipeline, tmp_path, may_replace=True).export("freeze")
    assert before.added is not None
    assert after.added is not None
    assert (after.added.there, after.added.part != before.added.part) == (0, True)
    parts = list(after.folder.iterdir())
    assert len(parts) == 1
    assert pyarrow.parquet.read_metadata(parts[0]).num_rows == after.added.states
