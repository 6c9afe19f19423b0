"""The featurize stage: what is stored is what the online code gives, once, and what cannot be had has a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sqlalchemy import func, select

from drsr.backbone import embedded, installing, load_backbone
from drsr.backbone.continuation import Continuation
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.candidates import Ineligible
from drsr.errors import ArtifactCorrupt, FeatureError, FeatureViewError, LayoutMismatch
from drsr.features.online import get_online_features
from drsr.features.session import SessionCache
from drsr.features.spans import prefix_hash
from drsr.features.vectors import CandidateFeatures, candidate_features
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.featurize.records import FeatureExclusion
from drsr.offline.featurize.stage import FeaturizeSummary, count_pending, featurize_run, featurize_states, materialize
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import RegisteredView, get_view
from drsr.offline.freeze.rows import StateRow, TrajectoryItem, load_states
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.freeze.states import FrozenState
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as RecordedRun
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.frames import get_training_frame
from drsr.request.request import read_request
from drsr.request.view import caps_for
from tests.features.states import run_messages, state_of
from tests.offline.chat_files import chat, write_json
from tests.offline.logical_content import content_hash_of_catalog
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import WINDOW, Architecture

CAPS = caps_for(WINDOW)


@pytest.fixture
def frozen(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Catalog:
    """Three runs: one too short, one with a single eligible decision, one with three states, the last two cut."""
    for seed, steps in enumerate((3, 5, 8)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, tiny_backbone("llama").tokenizer, CAPS)
    return catalog


def run(catalog: Catalog, artifacts: ArtifactStore, backbone: FrozenLM, **options: Any) -> FeaturizeSummary:
    return materialize(catalog, artifacts, backbone, featurize_run(backbone, "float32", CAPS, **options))


def view_of(catalog: Catalog, name: str = "default") -> RegisteredView:
    with catalog.reading() as connection:
        return get_view(connection, name)


def loaded(catalog: Catalog, artifacts: ArtifactStore, backbone: FrozenLM) -> list[StateRow]:
    """Every frozen state of the catalog."""
    with catalog.reading() as connection:
        items = connection.execute(select(Trajectory.id, Trajectory.blob, Trajectory.split)).all()
    rule = freezing_rule(backbone.tokenizer, CAPS)
    return [
        row
        for number, blob, split in items
        for row in load_states(
            catalog, artifacts, TrajectoryItem(number, blob, split, ""), backbone.tokenizer, CAPS, rule
        )
    ]


def count(catalog: Catalog, table: Any) -> int:
    with catalog.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_stored_features_are_the_online_ones_of_the_raw_request(
    frozen: Catalog, artifacts: ArtifactStore, architecture: Architecture
) -> None:
    """States from the store, recomputed from the request as an agent would send it: equal to 1e-5."""
    backbone = tiny_backbone(architecture)
    summary = run(frozen, artifacts, backbone)
    compared = compare_with_online(frozen, artifacts, backbone)
    assert summary.featurized == summary.states == compared == 4
    assert summary.trajectories == 2


def compare_with_online(catalog: Catalog, artifacts: ArtifactStore, backbone: FrozenLM) -> int:
    view = view_of(catalog)
    reader = FeatureReader(artifacts, view)
    with catalog.reading() as connection:
        states = stored_states(connection, view)
        decisions = dict(connection.execute(select(DecisionState.id, DecisionState.decision_index)).tuples().all())
    for state in states:
        run_recorded = RecordedRun.from_json(artifacts.get(state.trajectory.blob))
        body = run_recorded.request | {"messages": run_recorded.request["messages"][: decisions[state.state_id]]}
        online = get_online_features(
            read_request(body, protocol=run_recorded.protocol), backbone, layout_hash=view.identity.layout_hash
        )
        assert not isinstance(online, Ineligible)
        np.testing.assert_allclose(reader.matrix(state), online.matrix, rtol=1e-5, atol=1e-5)
        assert state.prefix_hash == online.prefix_hash
    return len(states)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_damaged_bytes_of_one_run_stop_only_that_run(
    frozen: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with frozen.reading() as connection:
        with_states = select(Trajectory.blob).where(Trajectory.id.in_(select(DecisionState.trajectory_id)))
        first = connection.execute(with_states.order_by(Trajectory.id)).scalars().first()
    get = artifacts.get

    def damaged(key: str) -> bytes:
        if key == first:
            raise ArtifactCorrupt(f"artifact {key} is cut short")
        return get(key)

    monkeypatch.setattr(artifacts, "get", damaged)
    with pytest.raises(ArtifactCorrupt, match=r"^run runs/.* is cut short$"):
        run(frozen, artifacts, tiny_backbone("llama"))
    done = count(frozen, StateFeatures)
    assert 0 < done < 4
    monkeypatch.setattr(artifacts, "get", get)
    assert run(frozen, artifacts, tiny_backbone("llama")).featurized == 4 - done


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_on_the_embedded_model(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    installing.fetch(embedded.MODEL)
    backbone = load_backbone("smollm2-135m")
    assert isinstance(backbone, FrozenLM)
    caps = caps_for(backbone.window)
    write_json(tmp_path / "runs" / "a.json", chat(4, steps=6))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    freeze(catalog, artifacts, backbone.tokenizer, caps)
    summary = materialize(catalog, artifacts, backbone, featurize_run(backbone, "float32", caps))
    assert compare_with_online(catalog, artifacts, backbone) == summary.featurized == 2


def test_everything_is_stored_once_and_nothing_again(frozen: Catalog, artifacts: ArtifactStore) -> None:
    backbone = tiny_backbone("llama")
    run(frozen, artifacts, backbone)
    rows = {row.id: row for row in loaded(frozen, artifacts, backbone)}
    with frozen.reading() as connection:
        before = content_hash_of_catalog(connection)
        recorded = connection.execute(select(StateFeatures)).all()
        files = {row.id: row for row in connection.execute(select(FeatureFile))}
        splits = dict(
            connection.execute(
                select(DecisionState.id, Trajectory.split).join(
                    Trajectory, Trajectory.id == DecisionState.trajectory_id
                )
            )
            .tuples()
            .all()
        )
    assert {row.state_id for row in recorded} == rows.keys()
    for row in recorded:
        state = rows[row.state_id].frozen.state
        assert (row.outcome, row.method) == ("stored", "featurize")
        assert row.prefix_hash == prefix_hash(state)
        assert row.request_tokens == len(state.rendering)
        assert row.protocol_breaking == 0
        assert files[row.file_id].split == splits[row.state_id]
    assert sum(file.states for file in files.values()) == len(rows)
    assert run(frozen, artifacts, backbone).states == 0
    with frozen.reading() as connection:
        assert content_hash_of_catalog(connection) == before
    assert count(frozen, Claim) == 0
    assert count(frozen, FeatureView) == 1


def test_parts_of_the_work_add_up_to_the_whole(frozen: Catalog, artifacts: ArtifactStore) -> None:
    backbone = tiny_backbone("llama")
    first = run(frozen, artifacts, backbone, limit=1)
    assert 1 <= first.states <= 3, "whole trajectories: their states share what was computed"
    assert run(frozen, artifacts, backbone, part=Selection(source="elsewhere")).states == 0
    rule = freezing_rule(backbone.tokenizer, CAPS)
    with frozen.reading() as connection:
        waiting = count_pending(connection, view_of(frozen).id, rule, Selection())
        assert count_pending(connection, None, rule, Selection()) == 4
    assert waiting == 4 - first.states
    assert run(frozen, artifacts, backbone).states == waiting


def test_superseded_trajectories_are_not_featurized(frozen: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    write_json(tmp_path / "runs" / "2.json", chat(2, steps=4), long_ago=False)
    ingest(frozen, artifacts, str(tmp_path / "runs"), source="runs")
    assert run(frozen, artifacts, tiny_backbone("llama")).states == 1


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestViews:
    def test_another_language_model_needs_another_view(self, frozen: Catalog, artifacts: ArtifactStore) -> None:
        run(frozen, artifacts, tiny_backbone("llama"))
        with pytest.raises(FeatureViewError, match="backbone_identity 'tiny-llama'") as refusal:
            run(frozen, artifacts, tiny_backbone("qwen3"))
        assert "--view NAME" in str(refusal.value)
        assert count(frozen, FeatureView) == 1
        assert run(frozen, artifacts, tiny_backbone("qwen3"), view="other").states == 4
        assert view_of(frozen, "other").version == 1

    def test_another_layout_is_the_next_version_and_the_old_one_stale(
        self, frozen: Catalog, artifacts: ArtifactStore
    ) -> None:
        backbone = tiny_backbone("llama")
        older = featurize_run(backbone, "float32", CAPS)
        older = older._replace(identity=older.identity._replace(layout_hash="0" * 64))
        with pytest.raises(LayoutMismatch, match="features of layout"):  # what the model gives is not what is claimed
            materialize(frozen, artifacts, backbone, older)
        assert count(frozen, StateFeatures) == 0
        assert run(frozen, artifacts, backbone).states == 4
        assert view_of(frozen).version == 2


def test_the_scripted_double_has_no_features() -> None:
    with pytest.raises(FeatureError, match="has no layers to read features from"):
        featurize_run(ScriptedBackbone(), "float32", CAPS)


def test_online_features_of_another_layout_are_refused() -> None:
    backbone = tiny_backbone("llama")
    request = read_request(chat(1, steps=8)["messages"][:-1])
    with pytest.raises(LayoutMismatch, match=f"expected {'1' * 64}"):
        get_online_features(request, backbone, layout_hash="1" * 64)


def test_online_features_with_a_session_and_without_candidates() -> None:
    backbone = tiny_backbone("llama")
    messages = chat(1, steps=8)["messages"][:-1]
    sessions = SessionCache(backbone, max_bytes=1 << 30)
    direct = get_online_features(read_request(messages), backbone)
    kept = get_online_features(read_request(messages), backbone, sessions=sessions)
    assert not isinstance(direct, Ineligible)
    assert not isinstance(kept, Ineligible)
    assert np.abs(direct.matrix - kept.matrix).max() < 1e-4
    assert len(sessions) == 1
    assert isinstance(get_online_features(read_request(messages[:4]), backbone), Ineligible)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestWhatCannotBeHad:
    """An exclusion with the reason; never a row of zeros."""

    def test_non_finite_values(self, frozen: Catalog, artifacts: ArtifactStore) -> None:
        backbone = fresh_backbone("llama")
        backbone.model.get_decoder().layers[2].mlp.down_proj.weight.data[0, 0] = float("nan")
        summary = run(frozen, artifacts, backbone)
        assert (summary.featurized, summary.excluded) == (0, {"non_finite": 4})
        with frozen.reading() as connection:
            rows = connection.execute(select(StateFeatures.outcome, StateFeatures.detail, StateFeatures.file_id)).all()
        assert {row.outcome for row in rows} == {"excluded"}
        assert all("attention_l04_h01_mass is nan" in row.detail and row.file_id is None for row in rows)
        assert count(frozen, FeatureFile) == 0
        assert run(frozen, artifacts, backbone).states == 0, "an exclusion is an outcome, and is not tried again"

    @pytest.mark.parametrize(
        ("spans", "reason"),
        [
            ((), "empty_span"),
            ((range(9, 9),), "empty_span"),
            ((range(30, 20),), "empty_span"),
            ((range(40, 60), range(20, 30)), "misaligned_span"),
            ((range(3, 5),), "misaligned_span"),
        ],
    )
    def test_broken_spans(
        self, frozen: Catalog, artifacts: ArtifactStore, spans: tuple[range, ...], reason: str
    ) -> None:
        backbone = tiny_backbone("llama")
        good, broken, *_ = loaded(frozen, artifacts, backbone)
        state = broken.frozen.state
        candidates = (state.candidates[0]._replace(token_spans=spans), *state.candidates[1:])
        broken = broken._replace(frozen=broken.frozen._replace(state=state._replace(candidates=candidates)))
        first, second = featurize_states(backbone, [good, broken])
        assert np.isfinite(first.result.matrix).all()  # type: ignore[union-attr]
        assert second.result[0] == reason

    def test_too_little_memory(
        self, frozen: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Planted, as a device would say it. Any other fault of the model stops the stage instead."""
        backbone = tiny_backbone("llama")
        row, *_ = loaded(frozen, artifacts, backbone)
        complaint = "CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"

        def failing(continuation: Continuation, token_ids: Any, watch: Any = None) -> Any:
            raise RuntimeError(complaint)

        monkeypatch.setattr(Continuation, "extend", failing)
        (found,) = featurize_states(backbone, [row])
        assert isinstance(found.result, FeatureExclusion)
        assert found.result.reason == "out_of_memory"
        assert re.fullmatch(
            r"cpu: 16 tokens after 0 of \d+: CUDA out of memory\. Tried to allocate 2\.00 GiB\.", found.result.detail
        )
        complaint = "device-side assert triggered"
        with pytest.raises(RuntimeError, match="device-side"):
            featurize_states(backbone, [row])

    def test_a_candidate_outside_the_view(self, frozen: Catalog, artifacts: ArtifactStore) -> None:
        backbone = tiny_backbone("llama")
        *_, row = loaded(frozen, artifacts, backbone)
        state = row.frozen.state
        first_of_second = state.candidates[1].token_spans[0].start
        cut = state._replace(view=state.view._replace(start=first_of_second))
        (found,) = featurize_states(backbone, [row._replace(frozen=row.frozen._replace(state=cut))])
        assert found.result[0] == "outside_view"


def test_a_lost_file_is_computed_again(frozen: Catalog, artifacts: ArtifactStore) -> None:
    backbone = tiny_backbone("llama")
    run(frozen, artifacts, backbone)
    with frozen.reading() as connection:
        before = content_hash_of_catalog(connection)
        blob, states = connection.execute(select(FeatureFile.blob, FeatureFile.states).limit(1)).one()
    assert artifacts.local_root is not None
    (artifacts.local_root / blob[:2] / blob).unlink()
    again = run(frozen, artifacts, backbone)
    assert again.lost == again.featurized == states
    with frozen.reading() as connection:
        assert content_hash_of_catalog(connection) == before
    assert compare_with_online(frozen, artifacts, backbone) == 4


def test_unlabelled_states_make_no_frame(frozen: Catalog, artifacts: ArtifactStore) -> None:
    run(frozen, artifacts, tiny_backbone("llama"))
    with pytest.raises(Exception, match="no labeler is called 'default'"):
        get_training_frame(frozen, artifacts, split="train", purpose="train")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_states_of_a_trajectory_share_their_prefix(architecture: Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer tokens are run than one by one, and the numbers are those of a forward of their own."""
    backbone = tiny_backbone(architecture)
    messages = run_messages(12)
    rows = []
    for number, decision in enumerate((12, 18, 26)):
        state = state_of(messages[:decision], backbone.tokenizer)
        output = state.history.request.messages[0]  # which featurizing has no use for
        rows.append(StateRow(number, f"key {number}", FrozenState(decision, number, 1.0, state, output)))
    embedding = torch.nn.functional.embedding
    tokens = []

    def counted(ids: torch.Tensor, *arguments: Any, **settings: Any) -> torch.Tensor:
        tokens.append(ids.numel())
        return embedding(ids, *arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "embedding", counted)
        found = featurize_states(backbone, rows)
    longest = len(rows[-1].frozen.state.rendering)
    assert longest <= sum(tokens) < 1.3 * longest
    for one, row in zip(found, rows, strict=True):
        assert isinstance(one.result, CandidateFeatures)
        expected = candidate_features(backbone, row.frozen.state)
        np.testing.assert_allclose(one.result.matrix, expected.matrix, rtol=1e-5, atol=1e-5)
