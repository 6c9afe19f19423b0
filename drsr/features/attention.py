"""Attention of the pre-action position (paper, Eq. attention_app): mass, density and top mean of each candidate.

Only one row of the attention matrix is ever computed, from that position's query and the layer's keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drsr.errors import MisalignedSpan
from drsr.features.layout import TOP_TOKENS
from drsr.features.spans import Spans

if TYPE_CHECKING:
    import torch


def head_statistics(
    query: torch.Tensor, keys: torch.Tensor, scale: float | None, candidates: Sequence[Spans]
) -> torch.Tensor:
    """[candidates, heads, 3]: attention mass, density and top mean, in float32.

    `query` is [heads, dim] of the pre-action position, `keys` [kv_heads, positions, dim], both as the model attends
    with them, after rotary positions and norms. Heads share keys in groups of heads / kv_heads.
    """
    import torch

    weights = attention_weights(query, keys, scale)
    statistics = []
    for spans in candidates:
        if spans[-1].stop > weights.shape[1]:
            raise MisalignedSpan(f"a span ends at position {spans[-1].stop}, the keys at {weights.shape[1]}")
        inside = torch.cat([weights[:, span.start : span.stop] for span in spans], dim=1)
        mass = inside.sum(dim=1)
        top = inside.topk(min(TOP_TOKENS, inside.shape[1]), dim=1).values
        statistics.append(torch.stack([mass, mass / inside.shape[1], top.mean(dim=1)], dim=1))
    return torch.stack(statistics)


def attention_weights(query: torch.Tensor, keys: torch.Tensor, scale: float | None) -> torch.Tensor:
    """[heads, positions]: softmax over all positions, always in float32."""
    import torch

    heads, dim = query.shape
    scale = dim**-0.5 if scale is None else scale
    groups = (query.float() * scale).view(keys.shape[0], heads // keys.shape[0], dim)
    # Group by group, so that half-precision keys are widened one head at a time.
    scores = [group @ keys_of_group.float().T for group, keys_of_group in zip(groups, keys, strict=True)]
    return torch.cat(scores).softmax(dim=1)


def with_summaries(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """[candidates, layers, heads x 3 + 5]: the statistics of each head, then the summaries over the heads."""
    candidates, layers, heads, _ = statistics.shape
    mass, density, top_mean = np.moveaxis(statistics, -1, 0)
    summaries = [mass.mean(-1), mass.max(-1), density.mean(-1), density.max(-1), top_mean.mean(-1)]
    return np.concatenate([statistics.reshape(candidates, layers, heads * 3), np.stack(summaries, axis=-1)], axis=-1)
