"""The view `light` in the feature store, and the policy that is made from it: the same stages, no language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, update

from drsr.backbone import embedded
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import ArtifactCorrupt, FeatureViewError, InputError, ScorerNotTrained
from drsr.features.light import LIGHT_VIEW, light_features, light_layout
from drsr.offline.audit.checks import future, golden
from drsr.offline.audit.checks.future import audit_future
from drsr.offline.audit.release import gated_order
from drsr.offline.audit.running import run_audit
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.featurize.light_reader import LICENCE_FILE, load_light_reader, tokenizer_files
from drsr.offline.featurize.stage import count_waiting, featurize_run, identity_without_weights, materialize
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import RegisteredView, get_view
from drsr.offline.freeze.rows import TrajectoryItem, load_states
from drsr.offline.freeze.selection import Selection
from drsr.offline.label.worker import WorkOrder, work
from drsr.offline.publish.lineage import trace
from drsr.offline.publish.stage import find_calibration
from drsr.offline.publish.subject import Order, PolicyCandidate, Subject
from drsr.offline.publish.succession import judge_succession, not_worse, released_policy
from drsr.policy.golden import read_golden, verify_files
from drsr.policy.loading import load_policy
from drsr.policy.location import read_found
from drsr.request.view import caps_for
from drsr.settings import Settings
from tests.offline.small_pipeline import Pipeline, publish_quickly, with_light


def view_of(pipeline: Pipeline) -> RegisteredView:
    with pipeline.catalog.reading() as connection:
        return get_view(connection, LIGHT_VIEW)


def settings_of(pipeline: Pipeline) -> Settings:
    given = pipeline.settings
    return Settings(
        catalog_url=given["DRSR_CATALOG_URL"], artifact_root=given["DRSR_ARTIFACT_ROOT"], backbone=pipeline.backbone
    )


def waiting(pipeline: Pipeline) -> int:
    reader = load_light_reader(pipeline.backbone)
    caps = caps_for(reader.window)
    identity = identity_without_weights(pipeline.backbone, "float32", caps, reader.tokenizer, LIGHT_VIEW)
    return count_waiting(pipeline.catalog, pipeline.artifacts, LIGHT_VIEW, identity, Selection())


def test_what_is_stored_is_what_a_decision_would_see(pipeline: Pipeline) -> None:
    before = waiting(pipeline)
    assert before > 0
    summary = work(WorkOrder("featurize", settings_of(pipeline), LIGHT_VIEW, Selection(), None), lambda so_far: None)
    assert summary["featurized"] == summary["states"] == before
    assert waiting(pipeline) == 0
    view = view_of(pipeline)
    assert view.is_light
    assert view.identity.layout_hash == light_layout().hash
    reader, stored = load_light_reader(pipeline.backbone), FeatureReader(pipeline.artifacts, view)
    caps = caps_for(reader.window)
    with pipeline.catalog.reading() as connection:
        states = {state.state_key: state for state in stored_states(connection, view)}
        items = connection.execute(select(TrajectoryRow.id, TrajectoryRow.blob, TrajectoryRow.split)).all()
    compared = 0
    for number, blob, split in items:
        item = TrajectoryItem(number, blob, split, "")
        for row in load_states(
            pipeline.catalog, pipeline.artifacts, item, reader.tokenizer, caps, view.identity.freezing
        ):
            found = light_features(row.frozen.state)
            assert np.array_equal(stored.matrix(states[row.state_key]), found.matrix)  # to the bit
            assert states[row.state_key].prefix_hash == found.prefix_hash
            compared += 1
    assert compared == before
    again = work(WorkOrder("featurize", settings_of(pipeline), LIGHT_VIEW, Selection(), None), lambda so_far: None)
    assert again["states"] == 0


def test_only_the_view_called_light_holds_light_features(pipeline: Pipeline) -> None:
    reader, model = load_light_reader(pipeline.backbone), load_backbone(pipeline.backbone)
    assert isinstance(model, FrozenLM)
    caps = caps_for(reader.window)
    light = featurize_run(reader, "float32", caps, view="other")
    with pytest.raises(FeatureViewError, match="needs no language model"):
        materialize(pipeline.catalog, pipeline.artifacts, reader, light)
    full = featurize_run(model, "float32", caps, view=LIGHT_VIEW)
    with pytest.raises(FeatureViewError, match="is read by a language model"):
        materialize(pipeline.catalog, pipeline.artifacts, model, full)


def test_the_future_cannot_leak_into_it(pipeline: Pipeline) -> None:
    light = with_light(pipeline)
    reader = load_light_reader(light.backbone)
    found = audit_future(light.catalog, light.artifacts, reader, view=LIGHT_VIEW, sample=None)
    assert found.passed
    assert found.states == found.stored > 3
    assert found.largest_difference == 0.0
    with light.catalog.writing() as connection:
        rows = connection.execute(select(StateFeatures.state_id).where(StateFeatures.view_id == view_of(light).id))
        first = rows.scalars().first()
        mine = update(StateFeatures).where(StateFeatures.state_id == first)
        connection.execute(mine.values(prefix_hash="0" * 64))
    with pytest.raises(ArtifactCorrupt, match="not those that the catalog says"):
        audit_future(light.catalog, light.artifacts, reader, view=LIGHT_VIEW, sample=None)


def test_one_is_released_beside_the_other_from_the_same_labels(pipeline: Pipeline, tmp_path: Path) -> None:
    light = with_light(pipeline)
    index = tmp_path / "index"
    first = publish_quickly(pipeline, gated_order(index, version="1.0"))
    second = publish_quickly(light, gated_order(index, version="1.1"))
    assert all(gate.passed for gate in second.gates)
    assert second.wheel == index / "drsr-policy-light" / "drsr_policy_light-1.1-py3-none-any.whl"
    assert second.record.requires.startswith("drsr[light]>=")
    files, full = read_found(str(second.wheel)), read_found(str(first.wheel))
    assert (files.numbers.kind, full.numbers.kind) == ("light", "full")
    assert files.numbers.backbone.identity == full.numbers.backbone.identity  # one model measured the labels of both
    assert (files.numbers.context_cap, files.numbers.target_cap) == (full.numbers.context_cap, full.numbers.target_cap)
    assert LICENCE_FILE in files.others
    policy = load_policy(second.wheel)
    assert verify_files(policy, files, "x").passed
    assert any(item.expected.sets for item in read_golden(files, "x"))
    assert "light policy" in files.others["MODEL_CARD.md"].decode()
    again = publish_quickly(light, gated_order(tmp_path / "again", version="1.1"))
    assert again.wheel.read_bytes() == second.wheel.read_bytes()
    for order in (Order(policy=str(second.wheel), sample=2), Order(policy=str(first.wheel), sample=1)):
        audit = run_audit(Subject(light.catalog, light.artifacts, order), (golden.CHECK, future.CHECK))
        assert audit.passed, audit.failures


def test_a_calibration_of_the_other_kind_is_never_taken_by_mistake(pipeline: Pipeline) -> None:
    with pytest.raises(ScorerNotTrained, match="on the view light"):
        find_calibration(pipeline.catalog, None, light=True)
    light = with_light(pipeline)
    assert find_calibration(light.catalog, None).calibration_key == pipeline.calibration.calibration_key
    assert find_calibration(light.catalog, None, light=True).calibration_key == light.calibration.calibration_key
    key = light.calibration.calibration_key
    assert find_calibration(light.catalog, key[:20]).calibration_key == key
    with pytest.raises(InputError, match="0 calibrations"):
        find_calibration(light.catalog, "no key")


def test_a_light_policy_succeeds_light_policies_only(pipeline: Pipeline, tmp_path: Path) -> None:
    """The released full one reads other columns, and does not stand in the way."""
    light = with_light(pipeline)
    publish_quickly(pipeline, gated_order(tmp_path / "index", version="1.0"))
    assert released_policy(light.catalog, light=True) is None
    traced = trace(light.catalog, light.artifacts, light.calibration)
    (verdict,) = not_worse(Subject(light.catalog, light.artifacts, Order(), PolicyCandidate(traced)), lambda *_: None)
    assert verdict.detail == "nothing was released before"
    publish_quickly(light, gated_order(tmp_path / "index", version="1.1"))
    released = released_policy(light.catalog, light=True)
    assert released is not None
    assert released.release.version == "1.1"
    other = released_policy(light.catalog)
    assert other is not None
    assert other.release.version == "1.0"
    found = judge_succession(light.catalog, light.artifacts, light.calibration, traced.run, traced.frames["validation"])
    assert found.may_follow
    assert "it is the released one, 1.1" in found.why


def test_the_embedded_models_licence_ships_with_its_tokenizer() -> None:
    if not embedded.MODEL.is_fetched:
        pytest.skip("smollm2-135m is not fetched")
    files = tokenizer_files(embedded.NAME, "tokenizer.json")
    text = files[LICENCE_FILE].decode()
    assert "Apache License" in text
    assert "SmolLM2-135M-Instruct" in text
    assert len(files["tokenizer.json"]) < 4_000_000
