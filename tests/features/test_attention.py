"""Attention statistics from one query and the keys, against the formula written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drsr.errors import MisalignedSpan
from drsr.features.attention import attention_weights, head_statistics, with_summaries

HEADS, KV_HEADS, POSITIONS, DIM = 6, 2, 40, 8


@pytest.fixture
def query_and_keys() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(HEADS, DIM, generator=generator), torch.randn(KV_HEADS, POSITIONS, DIM, generator=generator)


def test_heads_share_keys_in_groups(query_and_keys: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, keys = query_and_keys
    weights = attention_weights(query, keys, None)
    assert weights.sum(dim=1) == pytest.approx(np.ones(HEADS), abs=1e-6)
    for head in range(HEADS):
        scores = keys[head // 3] @ query[head] / DIM**0.5
        assert torch.allclose(weights[head], scores.softmax(0), atol=1e-7)


def test_the_models_own_scale(query_and_keys: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, keys = query_and_keys
    assert torch.allclose(attention_weights(query, keys, 0.0), torch.full((HEADS, POSITIONS), 1 / POSITIONS))
    assert torch.allclose(attention_weights(query, keys, DIM**-0.5), attention_weights(query, keys, None))


def test_half_precision_is_widened_before_the_product(query_and_keys: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, keys = (tensor.bfloat16() for tensor in query_and_keys)
    weights = attention_weights(query, keys, None)
    assert weights.dtype == torch.float32
    assert torch.allclose(weights, attention_weights(query.float(), keys.float(), None), atol=1e-7)


def test_statistics_of_two_ranges_and_of_a_short_block(query_and_keys: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, keys = query_and_keys
    weights = attention_weights(query, keys, None).double().numpy()
    statistics = head_statistics(query, keys, None, [(range(3, 8), range(20, 31)), (range(10, 13),)]).numpy()
    assert statistics.shape == (2, HEADS, 3)
    parted = np.concatenate([weights[:, 3:8], weights[:, 20:31]], axis=1)
    assert statistics[0, :, 0] == pytest.approx(parted.sum(axis=1), abs=1e-6)
    assert statistics[0, :, 1] == pytest.approx(parted.sum(axis=1) / 16, abs=1e-6)
    assert statistics[0, :, 2] == pytest.approx(np.sort(parted, axis=1)[:, -8:].mean(axis=1), abs=1e-6)
    short = weights[:, 10:13]  # fewer than eight tokens: their mean, which is the density
    assert statistics[1, :, 1] == pytest.approx(short.mean(axis=1), abs=1e-6)
    assert statistics[1, :, 2] == pytest.approx(short.mean(axis=1), abs=1e-6)


def test_summaries_over_heads() -> None:
    statistics = np.arange(2 * 3 * 4 * 3, dtype=np.float64).reshape(2, 3, 4, 3)
    columns = with_summaries(statistics)
    assert columns.shape == (2, 3, 4 * 3 + 5)
    assert columns[0, 0, :12] == pytest.approx(np.arange(12))
    mass, density, top = statistics[1, 2].T
    assert columns[1, 2, 12:] == pytest.approx([mass.mean(), mass.max(), density.mean(), density.max(), top.mean()])


def test_a_span_behind_the_keys(query_and_keys: tuple[torch.Tensor, torch.Tensor]) -> None:
    with pytest.raises(MisalignedSpan, match="ends at position 41, the keys at 40"):
        head_statistics(*query_and_keys, None, [(range(30, 41),)])
