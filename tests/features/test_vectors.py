"""Features of whole states: equal to an eager pass, one forward, nothing of the future, nothing made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.backbone.continuation import Continuation
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.scripted import ScriptedBackbone
from drsr.decide.candidates import DecisionState, freeze
from drsr.errors import EmptySpan, FeatureError, MisalignedSpan, NonFiniteFeature
from drsr.features.geometry import geometry_of
from drsr.features.layout import Layout
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.features.vectors import FeatureWatch, candidate_features
from drsr.request.rendering import render
from drsr.request.request import Protocol, read_request
from tests.features.eager import eager_columns
from tests.features.states import paper_backbone, run_messages, state_of
from tests.strategies import PROTOCOLS, valid_requests
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture

GARBAGE = np.random.default_rng(0).integers(0, 256, 90).astype(np.int32)


def tiny_state(backbone: FrozenLM, steps: int = 7, context_cap: int = 2048) -> DecisionState:
    return state_of(run_messages(steps), backbone.tokenizer, context_cap)


def tokens_of(state: DecisionState) -> Any:
    return state.view.token_ids(state.rendering.token_ids)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("left_out", [0, 100])
def test_equal_to_an_eager_pass(architecture: Architecture, left_out: int) -> None:
    """On the whole request, and on a view that is a suffix of it."""
    backbone = tiny_backbone(architecture)
    state = tiny_state(backbone)
    if left_out:
        state = tiny_state(backbone, context_cap=len(state.rendering) - left_out)
    assert state.view.start >= left_out
    features = candidate_features(backbone, state)
    assert features.matrix.dtype == np.float32
    assert np.abs(features.matrix[:, 58:] - eager_columns(backbone, state)).max() < 1e-5
    assert np.array_equal(features.matrix[:, :58], structural_features(state).astype(np.float32))
    assert features.layout_hash == Layout(geometry_of(backbone)).hash
    assert features.prefix_hash == prefix_hash(state)


def test_the_papers_geometry_at_small_widths_gives_1154_columns() -> None:
    backbone = paper_backbone()
    state = tiny_state(backbone, 5)
    matrix = candidate_features(backbone, state).matrix
    assert matrix.shape == (3, 1154)
    assert np.abs(matrix[:, 58:] - eager_columns(backbone, state)).max() < 1e-5


def test_equal_to_an_eager_pass_on_the_embedded_model(smollm2: FrozenLM) -> None:
    state = state_of(run_messages(5, words=3), smollm2.tokenizer)
    features = candidate_features(smollm2, state)
    assert features.matrix.shape == (3, 58 + 8 * (9 * 3 + 5) + 30 * 5 + 512)
    np.testing.assert_allclose(features.matrix[:, 58:], eager_columns(smollm2, state), rtol=1e-5, atol=1e-5)


def test_attention_masses_of_all_tokens_sum_to_one() -> None:
    """So a mass is a share: four candidates together have less than all of it."""
    backbone = tiny_backbone("llama")
    layout = Layout(geometry_of(backbone))
    matrix = candidate_features(backbone, tiny_state(backbone)).matrix
    masses = matrix[:, [number for number, name in enumerate(layout.names) if name.endswith("_mass")]]
    assert (masses > 0).all()
    assert (masses.sum(axis=0) < 1).all()


def test_one_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is embedded once."""
    backbone = tiny_backbone("llama")
    state = tiny_state(backbone)
    embedded_tokens = []
    embedding = torch.nn.functional.embedding

    def counted(ids: torch.Tensor, *arguments: Any, **settings: Any) -> torch.Tensor:
        embedded_tokens.append(ids.numel())
        return embedding(ids, *arguments, **settings)

    monkeypatch.setattr(torch.nn.functional, "embedding", counted)
    candidate_features(backbone, state)
    assert sum(embedded_tokens) == len(tokens_of(state))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_watching_several_extends(architecture: Architecture) -> None:
    """The view may come in pieces, as the edges of a tree; what follows it is not looked at."""
    backbone = tiny_backbone(architecture)
    state = tiny_state(backbone)
    token_ids = tokens_of(state)
    continuation = Continuation(backbone, len(token_ids) + len(GARBAGE))
    watch = FeatureWatch(backbone, state)
    for edge in np.split(token_ids, [1, 100, 101, 333, len(token_ids) - 1]):
        continuation.extend(edge, watch=watch)
    before = watch.matrix()
    continuation.extend(GARBAGE, watch=watch)
    assert np.array_equal(watch.matrix(), before)
    assert np.abs(before - candidate_features(backbone, state).matrix).max() < 1e-5


def test_a_continuation_of_the_callers() -> None:
    backbone = tiny_backbone("llama")
    state = tiny_state(backbone)
    continuation = Continuation(backbone, 2048)
    features = candidate_features(backbone, state, continuation)
    assert continuation.length == len(tokens_of(state))
    assert np.array_equal(features.matrix, candidate_features(backbone, state).matrix)
    with pytest.raises(FeatureError, match=f"already holds {continuation.length} tokens"):
        candidate_features(backbone, state, continuation)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_future_cannot_leak(architecture: Architecture) -> None:
    """A recorded run whose every message behind the decision is replaced: bit for bit the same features."""
    backbone = tiny_backbone(architecture)
    recorded = run_messages(12)
    decision = 2 + 2 * 7  # index of the next output
    features = []
    for future in (recorded[decision:], [], [{"role": "assistant", "content": "garbage " * 50}, *run_messages(3)[1:]]):
        whole = read_request(recorded[:decision] + future)
        state = freeze(whole.with_messages(whole.messages[:decision]), backbone.tokenizer, 2048)
        assert isinstance(state, DecisionState)
        if future:  # offline a run is rendered once and cut before each of its decisions
            state = state._replace(rendering=render(whole, backbone.tokenizer).before(decision))
        features.append(candidate_features(backbone, state))
    for other in features[1:]:
        assert np.array_equal(features[0].matrix, other.matrix)
        assert features[0][1:] == other[1:]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_prefix_inside_a_longer_sequence(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    state = tiny_state(backbone)
    matrix = candidate_features(backbone, state).matrix
    assert np.abs(matrix[:, 58:] - eager_columns(backbone, state, behind=GARBAGE)).max() < 1e-5


def test_other_histories_give_other_features() -> None:
    """Of a Block that stayed the same, too: its features are relations to the pre-action state."""
    backbone = tiny_backbone("llama")
    changed = run_messages(7)
    changed[-1]["content"] = "quite another answer"
    state, other = tiny_state(backbone), state_of(changed, backbone.tokenizer)
    assert state.candidates[0].block == other.candidates[0].block
    difference = np.abs(candidate_features(backbone, state).matrix[0] - candidate_features(backbone, other).matrix[0])
    layout = Layout(geometry_of(backbone))
    for group in {column.group for column in layout.columns}:
        assert difference[layout.group(group)].max() > 1e-4


def test_nothing_is_filled_in_when_the_watch_saw_too_little() -> None:
    backbone = tiny_backbone("llama")
    state = tiny_state(backbone)
    token_ids = tokens_of(state)
    watch = FeatureWatch(backbone, state)
    continuation = Continuation(backbone, 2048)
    continuation.extend(token_ids[:-1], watch=watch)
    with pytest.raises(MisalignedSpan, match="does not end at the pre-action position"):
        watch.matrix()
    continuation.extend(np.concatenate([token_ids[-1:], GARBAGE]), watch=watch)  # ends behind it: the query is lost
    with pytest.raises(MisalignedSpan, match="does not end at the pre-action position"):
        watch.matrix()
    late = FeatureWatch(backbone, state)
    continuation = Continuation(backbone, 2048)
    continuation.extend(token_ids[:50])
    with pytest.raises(MisalignedSpan, match="shows position 50 where 0 was due"):
        continuation.extend(token_ids[50:], watch=late)


def test_a_non_finite_value_names_its_column() -> None:
    backbone = fresh_backbone("llama")
    backbone.model.get_decoder().layers[2].mlp.down_proj.weight.data[0, 0] = float("nan")
    with pytest.raises(NonFiniteFeature, match=r"Block \d\.\d: attention_l04_h01_mass is nan, as are \d+ more values"):
        candidate_features(backbone, tiny_state(backbone))


def test_an_empty_span_is_refused_before_anything_is_run() -> None:
    backbone = tiny_backbone("llama")
    state = tiny_state(backbone)
    broken = state._replace(candidates=(state.candidates[0]._replace(token_spans=()), *state.candidates[1:]))
    with pytest.raises(EmptySpan, match="no tokens of its own"):
        candidate_features(backbone, broken)


def test_the_scripted_double_has_no_features() -> None:
    backbone: Any = ScriptedBackbone()
    with pytest.raises(FeatureError, match="the backbone 'scripted' has no layers to read features from"):
        candidate_features(backbone, state_of(run_messages(6), backbone.tokenizer))


@settings(max_examples=50)
@given(data=st.data(), protocol=st.sampled_from(PROTOCOLS), context_cap=st.sampled_from([2048, 400]))
def test_any_valid_request_gives_finite_features(data: st.DataObject, protocol: Protocol, context_cap: int) -> None:
    backbone = tiny_backbone("llama")
    request = read_request(data.draw(valid_requests(protocol, min_steps=5)), protocol=protocol)
    state = freeze(request, backbone.tokenizer, context_cap)
    if isinstance(state, DecisionState):
        matrix = candidate_features(backbone, state).matrix
        assert matrix.shape == (len(state.candidates), 58 + 4 * (4 * 3 + 5) + 4 * 5 + 512)
        assert np.isfinite(matrix).all()
