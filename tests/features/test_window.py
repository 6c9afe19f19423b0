"""The observation window and whole directions: equal to an eager pass, however the forward comes in pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.backbone.continuation import Continuation
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import MisalignedSpan
from drsr.features.geometry import geometry_of
from drsr.features.session import FeatureSession
from drsr.features.vectors import FeatureWatch, candidate_features
from drsr.features.view_layouts import Kind, layout_from, layout_of
from drsr.features.window import WindowQueries, window_weights
from drsr.offline.label.harm import measure_states
from drsr.offline.label.target_nll import TargetNll
from drsr.request.rendering import render_output
from drsr.request.request import read_output
from tests.features.eager import eager_semantic, eager_window
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import ARCHITECTURES, tiny_backbone
from tests.tiny_models import Architecture

ALL = tuple(Kind)


def tokens_of(state: object) -> np.ndarray:
    return state.view.token_ids(state.rendering.token_ids)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("left_out", [0, 100])
def test_equal_to_an_eager_pass(architecture: Architecture, left_out: int) -> None:
    backbone = tiny_backbone(architecture)
    state = state_of(run_messages(7), backbone.tokenizer)
    if left_out:
        state = state_of(run_messages(7), backbone.tokenizer, len(state.rendering) - left_out)
    window = candidate_features(backbone, state, kind=Kind.WINDOW)
    assert np.abs(window.matrix - eager_window(backbone, state)).max() < 1e-5
    semantic = candidate_features(backbone, state, kind=Kind.SEMANTIC)
    assert np.abs(semantic.matrix - eager_semantic(backbone, state)).max() < 1e-3, "half precision"
    wide = candidate_features(backbone, state, kind=Kind.WIDE)
    full = candidate_features(backbone, state)
    assert np.array_equal(wide.matrix, np.concatenate([full.matrix, window.matrix], axis=1))
    layouts = [layout_from(kind, backbone.model.config, "tiny") for kind in (Kind.WINDOW, Kind.SEMANTIC, Kind.WIDE)]
    for found, layout in zip((window, semantic, wide), layouts, strict=True):
        assert (found.layout_hash, found.matrix.shape[1]) == (layout.hash, len(layout.columns))
        assert found.prefix_hash == full.prefix_hash


def test_equal_to_an_eager_pass_on_the_embedded_model(smollm2: FrozenLM) -> None:
    state = state_of(run_messages(5, words=3), smollm2.tokenizer)
    window = candidate_features(smollm2, state, kind=Kind.WINDOW).matrix
    assert window.shape == (3, 8 * 4)
    np.testing.assert_allclose(window, eager_window(smollm2, state), rtol=1e-5, atol=1e-6)
    semantic = candidate_features(smollm2, state, kind=Kind.SEMANTIC).matrix
    assert semantic.shape == (3, 4 * 3 * 576)
    np.testing.assert_allclose(semantic, eager_semantic(smollm2, state), rtol=1e-3, atol=1e-6)
    # The cosine that the full view has in its own column, from the directions.
    names = layout_of(geometry_of(smollm2)).names
    column = candidate_features(smollm2, state).matrix[:, names.index("hidden_l08_mean_cosine")]
    cosine = (semantic[:, :576] * semantic[:, 576:1152]).sum(axis=1)
    np.testing.assert_allclose(cosine, column, atol=2e-4)


@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, 150)), chunk=st.integers(5, 90), data=st.data())
def test_any_pieces_give_the_same(cuts: set[int], chunk: int, data: st.DataObject) -> None:
    """The window may lie across many forwards, and a shorter last one holds only a part of it."""
    backbone = tiny_backbone(data.draw(st.sampled_from(ARCHITECTURES)))
    state = state_of(run_messages(5), backbone.tokenizer)
    token_ids = tokens_of(state)
    watch = FeatureWatch(backbone, state, ALL)
    continuation = Continuation(backbone, len(token_ids), query_chunk=chunk)
    for piece in np.split(token_ids, sorted(len(token_ids) - cut for cut in cuts)):
        if len(piece):
            continuation.extend(piece, watch=watch)
    for kind in ALL:
        # Half precision: a number between two of its steps may go either way.
        atol = 1e-3 if kind is Kind.SEMANTIC else 1e-5
        np.testing.assert_allclose(
            watch.features(kind).matrix, candidate_features(backbone, state, kind=kind).matrix, rtol=1e-5, atol=atol
        )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("query_chunk", [40, None])
def test_the_label_walk_gives_the_same(architecture: Architecture, query_chunk: int | None) -> None:
    """Several states of one run, whose windows lie in nodes that they share and in nodes of their own."""
    backbone = tiny_backbone(architecture)
    messages, decisions = run_messages(8), [12, 14, 16]
    states = [state_of(messages[:index], backbone.tokenizer) for index in decisions]
    outputs = [read_output(messages[index], "openai", where="next output") for index in decisions]
    targets = [render_output(output, backbone.tokenizer) for output in outputs]
    watches = {number: FeatureWatch(backbone, state, ALL) for number, state in enumerate(states)}
    measure_states(TargetNll(backbone, query_chunk=query_chunk), list(zip(states, targets, strict=True)), watches)
    for number, state in enumerate(states):
        found = watches[number].features(Kind.WIDE).matrix
        assert np.abs(found - candidate_features(backbone, state, kind=Kind.WIDE).matrix).max() < 1e-5
        assert np.abs(found[:, -eager_window(backbone, state).shape[1] :] - eager_window(backbone, state)).max() < 1e-5


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_session_gives_the_same(architecture: Architecture) -> None:
    """Also where hardly a token is new, so that most of the window was run before."""
    backbone = tiny_backbone(architecture)
    messages = [*run_messages(8), {"role": "user", "content": "And?"}]
    for kind in (Kind.WIDE, Kind.SEMANTIC):
        session = FeatureSession(backbone, kind=kind)
        for end in (14, 18, 19, 19):
            state = state_of(messages[:end], backbone.tokenizer)
            expected = candidate_features(backbone, state, kind=kind).matrix
            assert np.abs(session.features(state).matrix - expected).max() < (1e-5 if kind is Kind.WIDE else 1e-3)


def test_each_position_of_the_window_attends_to_what_was_before_it() -> None:
    draw = torch.Generator().manual_seed(3)
    queries, keys = torch.randn(4, 6, 8, generator=draw), torch.randn(2, 10, 8, generator=draw)
    weights = window_weights(queries, keys, None)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6))
    assert (weights.triu(10 - 6 + 1) == 0).all()
    assert (weights[-1] > 0).all()


def test_a_window_with_a_gap_is_not_complete() -> None:
    queries = WindowQueries(99)
    queries.add(30, torch.ones(2, 20, 4))
    assert queries.gathered() is None
    queries.add(60, torch.ones(2, 40, 4))
    assert queries.gathered() is None, "50 to 59 are missing"
    queries.add(50, torch.zeros(2, 50, 4))
    found = queries.gathered()
    assert found is not None
    assert found.shape == (2, 64, 4)
    assert found[:, :14].eq(1).all() and found[:, 14:].eq(0).all(), "what was shown again replaces"  # noqa: PT018


def test_a_watch_that_saw_too_little_says_so() -> None:
    backbone = tiny_backbone("llama")
    state = state_of(run_messages(5), backbone.tokenizer)
    token_ids = tokens_of(state)
    continuation = Continuation(backbone, len(token_ids))
    continuation.extend(token_ids[:-10])
    watch = FeatureWatch(backbone, state, [Kind.WINDOW])
    watch.attention(2, torch.ones(4, 10, 8), torch.ones(2, len(token_ids), 8))
    assert not watch.is_complete
    with pytest.raises(MisalignedSpan):
        watch.matrix(Kind.WINDOW)
