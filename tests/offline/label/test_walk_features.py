"""Features collected while labels are measured, through the label stage: same numbers, same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sqlalchemy import func, select

from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone
from drsr.features.vectors import CandidateFeatures, FeatureWatch, candidate_features
from drsr.features.view_layouts import Kind
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.featurize.joining import join_stored
from drsr.offline.featurize.records import FeatureExclusion
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import get_view, register_view
from drsr.offline.freeze.rows import StateRow, load_states
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze
from drsr.offline.freeze.states import FrozenState
from drsr.offline.ingest.stage import ingest
from drsr.offline.label import stage
from drsr.offline.label.stage import LabelSummary, label, label_run
from drsr.offline.label.target_nll import Pair, TargetNll, direct_nll
from drsr.offline.label.walk_features import CollectingWatch
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import caps_for
from tests.features.states import run_messages, state_of
from tests.offline.chat_files import chat, write_json
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import WINDOW, Architecture

CAPS = caps_for(WINDOW)


@pytest.fixture
def frozen(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> Catalog:
    for seed, steps in enumerate((5, 7)):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed, steps=steps))
    ingest(catalog, artifacts, str(tmp_path / "runs"), source="runs")
    freeze(catalog, artifacts, tiny_backbone("llama").tokenizer, CAPS)
    return catalog


def run(catalog: Catalog, artifacts: ArtifactStore, backbone: Any, views: Sequence[str] = ("default",)) -> LabelSummary:
    scorer = TargetNll(backbone)
    return label(catalog, artifacts, scorer, label_run(scorer, "float32", CAPS, views=views))


def count(catalog: Catalog, table: Any) -> int:
    with catalog.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def stored(catalog: Catalog, artifacts: ArtifactStore, view: str = "default") -> dict[str, Any]:
    with catalog.reading() as connection:
        found = get_view(connection, view)
        states = stored_states(connection, found)
    reader = FeatureReader(artifacts, found)
    return {state.state_key: reader.matrix(state) for state in states}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_labelling_leaves_the_features_that_featurizing_gives(
    frozen: Catalog, artifacts: ArtifactStore, architecture: Architecture
) -> None:
    backbone = tiny_backbone(architecture)
    summary = run(frozen, artifacts, backbone)
    assert summary.featurized == summary.labelled == 4
    with frozen.reading() as connection:
        assert set(connection.execute(select(StateFeatures.method)).scalars()) == {"label"}
    order = featurize_run(backbone, "float32", CAPS)
    assert materialize(frozen, artifacts, backbone, order).states == 0, "nothing is left to do"
    assert materialize(frozen, artifacts, backbone, order._replace(view="alone")).states == 4
    alone = stored(frozen, artifacts, "alone")
    together = stored(frozen, artifacts)
    assert together.keys() == alone.keys()
    for key, matrix in together.items():
        np.testing.assert_allclose(matrix, alone[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_one_walk_fills_several_views(frozen: Catalog, artifacts: ArtifactStore) -> None:
    """Each with the numbers that featurizing gives; and only what is missing."""
    backbone = tiny_backbone("llama")
    materialize(frozen, artifacts, backbone, featurize_run(backbone, "float32", CAPS, view="window"))
    before = stored(frozen, artifacts, "window")
    summary = run(frozen, artifacts, backbone, ("default", "window", "semantic"))
    assert (summary.labelled, summary.featurized) == (4, 4)
    after = stored(frozen, artifacts, "window")
    assert all(np.array_equal(matrix, after[key]) for key, matrix in before.items())
    with frozen.reading() as connection:
        views = [get_view(connection, name) for name in ("default", "window", "semantic")]
        methods = select(StateFeatures.method).where(StateFeatures.view_id == views[1].id)
        assert set(connection.execute(methods).scalars()) == {"featurize"}
    assert len({view.identity.layout_hash for view in views}) == 3
    semantic = stored(frozen, artifacts, "semantic")
    with frozen.reading() as connection:
        items = {state.trajectory for state in stored_states(connection, views[2])}
    for item in items:
        for row in load_states(frozen, artifacts, item, backbone.tokenizer, CAPS, views[2].identity.freezing):
            expected = candidate_features(backbone, row.frozen.state, kind=Kind.SEMANTIC).matrix
            np.testing.assert_allclose(semantic.pop(row.state_key), expected, atol=1e-3)
    assert not semantic


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_wide_view_is_joined_from_its_parts(frozen: Catalog, artifacts: ArtifactStore) -> None:
    backbone = tiny_backbone("llama")
    run(frozen, artifacts, backbone, ("default", "window"))
    order = featurize_run(backbone, "float32", CAPS, view="wide")
    with frozen.writing() as connection:
        wide = register_view(connection, "wide", order.identity, order.columns)
    joined = join_stored(frozen, artifacts, wide, Selection())
    assert len(joined) == 4
    assert join_stored(frozen, artifacts, wide, Selection()) == []
    assert materialize(frozen, artifacts, backbone, order).states == 0, "nothing is left for the language model"
    parts = [stored(frozen, artifacts, name) for name in ("default", "window")]
    for key, matrix in stored(frozen, artifacts, "wide").items():
        assert np.array_equal(matrix, np.concatenate([part[key] for part in parts], axis=1))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_wide_view_without_its_parts_is_read_by_the_language_model(
    frozen: Catalog, artifacts: ArtifactStore
) -> None:
    backbone = tiny_backbone("llama")
    run(frozen, artifacts, backbone)
    order = featurize_run(backbone, "float32", CAPS, view="wide")
    with frozen.writing() as connection:
        wide = register_view(connection, "wide", order.identity, order.columns)
    assert join_stored(frozen, artifacts, wide, Selection()) == []
    assert materialize(frozen, artifacts, backbone, order).featurized == 4
    full = stored(frozen, artifacts)
    for key, matrix in stored(frozen, artifacts, "wide").items():
        np.testing.assert_allclose(matrix[:, : full[key].shape[1]], full[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_features_that_are_there_are_left_as_they_are(frozen: Catalog, artifacts: ArtifactStore) -> None:
    backbone = tiny_backbone("llama")
    materialize(frozen, artifacts, backbone, featurize_run(backbone, "float32", CAPS))
    summary = run(frozen, artifacts, backbone)
    assert (summary.labelled, summary.featurized) == (4, 0)
    with frozen.reading() as connection:
        assert set(connection.execute(select(StateFeatures.method)).scalars()) == {"featurize"}


@pytest.mark.parametrize(
    ("database", "dies_in"),
    [
        *(("sqlite", place) for place in ("prepare_features", "record_measurements", "record_features")),
        ("postgresql", "record_features"),  # the last write of the transaction
    ],
    indirect=["database"],
)
def test_a_crash_in_between_leaves_neither_labels_nor_features(
    frozen: Catalog, artifacts: ArtifactStore, dies_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the moment: the trajectory has both or nothing, and the next run gives both, once."""
    backbone = tiny_backbone("llama")
    real = getattr(stage, dies_in)
    calls: list[int] = []

    def die_the_second_time(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(stage, dies_in, die_the_second_time)
        with pytest.raises(KeyboardInterrupt):
            run(frozen, artifacts, backbone)
    with frozen.reading() as connection:
        labelled = set(connection.execute(select(StateMeasurement.state_id)).scalars())
        featurized = set(connection.execute(select(StateFeatures.state_id)).scalars())
    assert labelled == featurized
    assert len(labelled) in (1, 3), "one trajectory was recorded, the other is as if it had never been tried"
    run(frozen, artifacts, backbone)
    assert count(frozen, StateMeasurement) == count(frozen, StateFeatures) == 4
    with frozen.reading() as connection:
        assert connection.execute(select(func.sum(FeatureFile.states))).scalar_one() == 4
    assert len(stored(frozen, artifacts)) == 4


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_double_is_labelled_without_features(frozen: Catalog, artifacts: ArtifactStore) -> None:
    double = ScriptedBackbone()
    freeze(frozen, artifacts, double.tokenizer, CAPS)
    summary = run(frozen, artifacts, double)
    assert summary.labelled
    assert summary.featurized == 0
    assert count(frozen, FeatureView) == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_non_finite_features_are_an_exclusion_and_labels_are_unharmed(
    frozen: Catalog, artifacts: ArtifactStore
) -> None:
    """Overflow in a hidden state that the output does not depend on: a label, but no features."""
    backbone = fresh_backbone("llama")
    settle(backbone)
    summary = run(frozen, artifacts, backbone)
    assert summary.featurized == 0
    assert count(frozen, Label) > 0
    with frozen.reading() as connection:
        rows = connection.execute(select(StateFeatures.outcome, StateFeatures.reason)).all()
    assert [tuple(row) for row in rows] == [("excluded", "non_finite")] * 4
    assert count(frozen, FeatureFile) == 0


def settle(backbone: FrozenLM) -> None:
    """A final norm that is hooked for features gives infinity, and the head takes none of it."""
    decoder = backbone.model.get_decoder()
    norm, size = decoder.norm, decoder.norm.weight.shape[0]

    class Overflowing(torch.nn.Module):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = norm(states).clone()
            found[..., size - 1] = 3e38
            return found

    decoder.norm = Overflowing()
    backbone.model.get_output_embeddings().weight.data[:, size - 1] = 0.0


def row_of(backbone: FrozenLM) -> StateRow:
    state = state_of(run_messages(7), backbone.tokenizer)
    return StateRow(1, "key", FrozenState(14, 0, 1.0, state, state.history.request.messages[0]))


def test_a_watch_that_was_shown_too_little_waits_for_the_featurize_stage() -> None:
    backbone = tiny_backbone("llama")
    watch = CollectingWatch(backbone, row_of(backbone))
    assert watch.collected() is None
    watch.hidden(1, 0, torch.zeros(5, 32))
    assert watch.collected() is None


def test_a_watch_that_is_shown_something_twice_gives_up_quietly() -> None:
    """As after a forward that ran out of memory and is tried again with fewer tokens."""
    backbone = tiny_backbone("llama")
    watch = CollectingWatch(backbone, row_of(backbone))
    watch.hidden(1, 0, torch.zeros(5, 32))
    watch.hidden(1, 0, torch.zeros(2, 32))
    watch.hidden(1, 2, torch.zeros(2, 32))
    watch.attention(4, torch.zeros(4, 5, 8), torch.zeros(2, 5, 8))
    assert watch.collected() is None


def test_a_watch_without_memory_gives_up_and_the_labels_are_unharmed(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    row = row_of(backbone)
    state = row.frozen.state
    watch = CollectingWatch(backbone, row)

    def no_memory(*_: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(FeatureWatch, "hidden", no_memory)
    context = state.view.token_ids(state.rendering.token_ids)
    pair = Pair(context, context[:5])
    (nll,) = TargetNll(backbone).score([pair], {0: watch}).nlls
    assert nll == pytest.approx(direct_nll(backbone, *pair), abs=1e-5)
    assert watch.collected() is None


def test_broken_spans_are_an_exclusion() -> None:
    backbone = tiny_backbone("llama")
    row = row_of(backbone)
    state = row.frozen.state
    candidates = (state.candidates[0]._replace(token_spans=()), *state.candidates[1:])
    broken = row._replace(frozen=row.frozen._replace(state=state._replace(candidates=candidates)))
    watch = CollectingWatch(backbone, broken)
    assert watch.attention_layers == frozenset()
    watch.hidden(1, 0, torch.zeros(5, 32))
    found = watch.collected()
    assert found is not None
    assert isinstance(found.result, FeatureExclusion)
    assert found.result.reason == "empty_span"


def test_what_is_collected_says_what_is_known_of_the_state() -> None:
    from drsr.backbone.continuation import Continuation

    backbone = tiny_backbone("llama")
    row = row_of(backbone)
    token_ids = row.frozen.state.view.token_ids(row.frozen.state.rendering.token_ids)
    watch = CollectingWatch(backbone, row)
    Continuation(backbone, len(token_ids)).extend(token_ids, watch=watch)
    found = watch.collected()
    expected = candidate_features(backbone, row.frozen.state)
    assert found is not None
    assert isinstance(found.result, CandidateFeatures)
    assert found.result.matrix.tobytes() == expected.matrix.tobytes()
    assert (found.state_id, found.state_key, found.prefix_hash) == (1, "key", expected.prefix_hash)
    assert found.request_tokens == len(row.frozen.state.rendering)
