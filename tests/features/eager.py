"""The paper's formulas written down plainly, on an eager pass that keeps every attention matrix and hidden state."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.features.geometry import geometry_of
from drsr.features.layout import Layout
from drsr.features.projection import projection_matrix


def eager_columns(
    backbone: FrozenLM, state: DecisionState, behind: NDArray[np.int32] | None = None
) -> NDArray[np.float64]:
    """All columns but the structural ones. `behind` are tokens that follow the pre-action position in the same pass."""
    layout = Layout(geometry_of(backbone))
    view = state.view.token_ids(state.rendering.token_ids)
    position = len(view) - 1
    attention, hidden = _eager_pass(backbone, view if behind is None else np.concatenate([view, behind]))
    rows = []
    for inside in _inside(state):
        last = {layer: weights[:, position] for layer, weights in attention.items()}
        row = [value for layer in layout.attention_layers for value in _attention(last[layer][:, inside])]
        row += [value for states in hidden[1:] for value in _relations(states[inside], states[position])]
        for layer in layout.semantic_layers:
            matrix = projection_matrix(layer, hidden[layer].shape[1])
            for vector in (hidden[layer][inside].mean(axis=0), hidden[layer][position]):
                row += list(vector / np.linalg.norm(vector) @ matrix)
        rows.append(row)
    return np.array(rows)


def eager_window(backbone: FrozenLM, state: DecisionState, positions: int = 64) -> NDArray[np.float64]:
    """The columns of the view `window`."""
    layout = Layout(geometry_of(backbone))
    attention, _ = _eager_pass(backbone, state.view.token_ids(state.rendering.token_ids))
    rows = []
    for inside in _inside(state):
        row: list[float] = []
        for layer in layout.attention_layers:
            weights = attention[layer].mean(axis=0)[-positions:]  # over the heads; then [window, all positions]
            mass_by_position = weights[:, inside].sum(axis=1)
            by_token = weights.mean(axis=0)[inside]
            row += [by_token.sum(), by_token.sum() / len(inside), by_token.max(), mass_by_position.max()]
        rows.append(row)
    return np.array(rows)


def eager_semantic(backbone: FrozenLM, state: DecisionState) -> NDArray[np.float64]:
    """The columns of the view `semantic`, not rounded."""
    layout = Layout(geometry_of(backbone))
    _, hidden = _eager_pass(backbone, state.view.token_ids(state.rendering.token_ids))
    rows = []
    for inside in _inside(state):
        vectors = [
            vector
            for layer in layout.semantic_layers
            for vector in (hidden[layer][inside].mean(axis=0), hidden[layer][-1], hidden[layer].mean(axis=0))
        ]
        rows.append(np.concatenate([vector / np.linalg.norm(vector) for vector in vectors]))
    return np.array(rows)


def _eager_pass(
    backbone: FrozenLM, token_ids: NDArray[np.int32]
) -> tuple[dict[int, NDArray[np.float64]], list[NDArray[np.float64]]]:
    """By layer the attention matrices [heads, positions, positions]; and all hidden states, the embeddings first."""
    model = copy.deepcopy(backbone.model)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        output = model(
            input_ids=torch.as_tensor(token_ids.astype(np.int64))[None],
            output_attentions=True,
            output_hidden_states=True,
        )
    by_layer = zip(geometry_of(backbone).full_attention, output.attentions, strict=True)
    attention = {layer: weights[0].double().numpy() for layer, weights in by_layer}
    return attention, [states[0].double().numpy() for states in output.hidden_states]


def _inside(state: DecisionState) -> list[NDArray[np.int64]]:
    """The positions of every candidate in the view."""
    cut = len(state.rendering) - len(state.view.token_ids(state.rendering.token_ids))
    return [
        np.concatenate([np.arange(span.start, span.stop) for span in candidate.token_spans]) - cut
        for candidate in state.candidates
    ]


def _attention(weights: NDArray[np.float64]) -> list[float]:
    """From the weights [heads, tokens of the Block]."""
    mass = weights.sum(axis=1)
    density = mass / weights.shape[1]
    top = np.sort(weights, axis=1)[:, -8:].mean(axis=1)
    each = [value for head in zip(mass, density, top, strict=True) for value in head]
    return [*each, mass.mean(), mass.max(), density.mean(), density.max(), top.mean()]


def _relations(block: NDArray[np.float64], state: NDArray[np.float64]) -> list[float]:
    mean = block.mean(axis=0)
    distance = np.linalg.norm(mean - state) / np.sqrt(len(state))
    log_ratio = np.log(np.linalg.norm(mean) / np.linalg.norm(state))
    return [
        _cosine(mean, state),
        float(distance),
        float(log_ratio),
        _cosine(block[0], state),
        _cosine(block[-1], state),
    ]


def _cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
