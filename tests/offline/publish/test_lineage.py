"""The hash chain back to the trajectories: computed again it is the same, and whatever is changed is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import ArtifactCorrupt, CatalogError
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze.stage import freeze
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.publish.lineage import before_the_journal, lineage_bytes, policy_link, read_lineage, trace
from drsr.offline.train.checkpoints import frame_hash
from drsr.offline.train.frames import get_training_frame
from drsr.offline.train.records import find_calibration
from drsr.request.view import caps_for
from tests.offline.small_pipeline import Pipeline, add_runs, featurize

LINKS = ["trajectories", "states", "labels", "features", "training", "calibration", "journal"]


def traced(pipeline: Pipeline, **options: Any) -> Any:
    with pipeline.catalog.reading() as connection:
        calibration = find_calibration(connection, pipeline.calibration.calibration_key)
    assert calibration is not None
    return trace(pipeline.catalog, pipeline.artifacts, calibration, **options)


def hashes(found: Any) -> dict[str, str]:
    return {link.link: link.sha256 for link in found.links}


def change(pipeline: Pipeline, statement: Any) -> None:
    with pipeline.catalog.writing() as connection:
        assert connection.execute(statement).rowcount == 1


def one_of(pipeline: Pipeline, column: Any) -> Any:
    """The first value, of a state that was trained on or chosen by."""
    query = select(column).select_from(DecisionState).join(Trajectory).where(Trajectory.split == "train")
    if column.class_ not in (DecisionState, Trajectory):
        query = query.join(column.class_, column.class_.state_id == DecisionState.id)
    with pipeline.catalog.reading() as connection:
        return connection.execute(query.order_by(DecisionState.id)).scalars().first()


def test_every_link_follows_from_the_ones_before(pipeline: Pipeline) -> None:
    found = traced(pipeline)
    assert found.problems == ()
    assert [link.link for link in found.links] == LINKS
    assert [link.made_from for link in found.links] == [
        (),
        ("trajectories",),
        ("states",),
        ("states",),
        ("labels", "features"),
        ("training",),
        (),
    ]
    assert len(set(hashes(found).values())) == len(LINKS)
    assert hashes(traced(pipeline)) == hashes(found)
    counts = {link.link: link.items for link in found.links}
    assert counts["trajectories"] == 7  # none of the test split
    assert counts["states"] == counts["labels"] == counts["features"] == len(found.states)
    assert {state.split for state in found.states} == {"train", "validation"}


def test_the_frames_are_those_of_the_quick_way(pipeline: Pipeline) -> None:
    """Read row by row and put together again: the same bits as what training reads."""
    found = traced(pipeline)
    for split in ("train", "validation"):
        quick = get_training_frame(pipeline.catalog, pipeline.artifacts, split=split, purpose="train")
        assert frame_hash(quick) == frame_hash(found.frames[split])


def test_the_last_link_stands_for_all(pipeline: Pipeline) -> None:
    found = traced(pipeline)
    last = policy_link(found.links, "identity", "1.0")
    assert last.made_from == ("calibration", "journal")
    older = before_the_journal(found.links)
    assert [link.link for link in older] == LINKS[:-1]
    assert policy_link(older, "identity", "1.0").made_from == ("calibration",)
    assert policy_link(found.links, "another", "1.0").sha256 != last.sha256
    shorter = (*found.links[:-1], found.links[-1]._replace(sha256="0" * 64))
    assert policy_link(shorter, "identity", "1.0").sha256 != last.sha256
    data = lineage_bytes((*found.links, last), "0" * 64)
    links, states = read_lineage(data)
    assert states == "0" * 64
    assert lineage_bytes(links, states) == data
    assert [link.sha256 for link in links] == [*hashes(found).values(), last.sha256]


@pytest.mark.parametrize(
    ("table", "column", "value", "first", "problem"),
    [
        (Label, "deleted_nll", 9.0, "labels", "does not follow from its NLLs"),
        (Label, "harm", Label.harm + 1e-6, "labels", "does not follow from its NLLs"),
        (StateMeasurement, "target_hash", "0" * 64, "labels", None),
        (StateFeatures, "protocol_breaking", 2, "features", "of split train are not those that the scorer"),
        (StateFeatures, "request_tokens", 77_777, "features", "of split train are not those that the scorer"),
        (DecisionState, "request_hash", "0" * 64, "states", "does not follow from its trajectory"),
        (TrainingRun, "chosen_epochs", [1, 1], "training", None),
        (TrainingRun, "validation_hash", "0" * 64, "training", "of split validation are not those that the scorer"),
        (TrainingRun, "params", {"seeds": [1]}, "training", "does not have the key of what it says"),
        (CalibrationRun, "risk_threshold", 0.123, "calibration", None),
        (CalibrationRun, "params", {}, "calibration", "does not have the key of what it was made from"),
        (CalibrationRun, "validation_hash", "0" * 64, "calibration", "other frames than the training run"),
    ],
)
def test_whatever_is_changed_changes_its_link_and_all_behind_it(
    pipeline: Pipeline, table: Any, column: str, value: Any, first: str, problem: str | None
) -> None:
    """Where the record alone cannot show that it is wrong, the hash still shows that it is another."""
    before = hashes(traced(pipeline))
    statement = update(table).values({column: value})
    if table is DecisionState:
        statement = statement.where(DecisionState.id == one_of(pipeline, DecisionState.id))
    elif table not in (TrainingRun, CalibrationRun):
        statement = statement.where(table.state_id == one_of(pipeline, table.state_id))
        statement = statement.where(Label.mask == 1) if table is Label else statement
    change(pipeline, statement)
    found = traced(pipeline)
    after = hashes(found)
    changed = [link for link in LINKS if before[link] != after[link]]
    assert changed[0] == first
    assert "calibration" in changed
    if problem is None:
        assert found.problems == ()
    else:
        assert any(problem in said for said in found.problems), found.problems


def test_other_bytes_of_a_trajectory_are_noticed(pipeline: Pipeline) -> None:
    with pipeline.catalog.reading() as connection:
        one, other = connection.execute(
            select(Trajectory.blob).where(Trajectory.split == "train").order_by(Trajectory.id).limit(2)
        ).scalars()
    change(pipeline, update(Trajectory).where(Trajectory.blob == one).values(blob=other))
    found = traced(pipeline)
    assert any("is not the one that was ingested" in problem for problem in found.problems)


def test_lost_or_damaged_files_are_named(pipeline: Pipeline) -> None:
    found = traced(pipeline)
    for key in (found.run.weights, found.states[0].feature_file):
        path = pipeline.folder / "artifacts" / key[:2] / key
        data = path.read_bytes()
        path.write_bytes(data[:-3])
        with pytest.raises(ArtifactCorrupt):
            traced(pipeline)
        path.unlink()
        with pytest.raises(ArtifactCorrupt):
            traced(pipeline)
        path.write_bytes(data)
    assert traced(pipeline).problems == ()


def test_after_the_data_has_grown_the_old_lineage_can_still_be_computed(pipeline: Pipeline) -> None:
    """A release names its states; newer ones do not disturb it, but nothing new may be published from old data."""
    before = traced(pipeline)
    keys = orjson.loads(before.state_keys)
    backbone = load_backbone(pipeline.backbone)
    assert isinstance(backbone, FrozenLM)
    caps = caps_for(backbone.window)
    add_runs(pipeline.catalog, pipeline.artifacts, pipeline.folder, first=500)
    freeze(pipeline.catalog, pipeline.artifacts, backbone.tokenizer, caps)
    scorer = TargetNll(backbone)
    label(pipeline.catalog, pipeline.artifacts, scorer, label_run(scorer, "float32", caps))
    featurize(pipeline.catalog, pipeline.artifacts, backbone, caps)
    grown = traced(pipeline)
    assert len(grown.states) > len(before.states)
    assert any("drsr train, drsr calibrate, and publish again" in problem for problem in grown.problems)
    again = traced(pipeline, state_keys=keys)
    assert again.problems == ()
    assert again.links == before.links


def test_a_state_that_is_gone_is_named(pipeline: Pipeline, tmp_path: Path) -> None:
    keys = orjson.loads(traced(pipeline).state_keys)
    with pytest.raises(CatalogError, match="1 of .* states are no longer in the catalog"):
        traced(pipeline, state_keys=[*keys, "0" * 64])
