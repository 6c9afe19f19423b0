"""What a forward calls, counted on no device: the numbers that follow from a model's sizes by hand."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

from benchmarks.traffic import GPUS, Call, calls_of, model_on_meta, per_token, seconds
from drsr.settings import MIXED

TOKENS = 64
WIDTHS: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 96,
    "vocab_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
LLAMA = transformers.LlamaConfig(num_hidden_layers=3, **WIDTHS)
MATRICES = 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 96)
"""Numbers in the matrices of the layers."""
HYBRID = transformers.Qwen3_5TextConfig(
    num_hidden_layers=4,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=8,
    **WIDTHS,
)


def test_products_are_those_of_the_matrices_and_of_attention() -> None:
    calls = calls_of(model_on_meta("bfloat16", LLAMA), TOKENS)
    attention = 3 * 2 * TOKENS * TOKENS * 32
    # One product more gives the angles of the positions.
    assert sum(call.products for call in calls) == pytest.approx(2 * MATRICES * TOKENS + attention, rel=0.002)
    assert sum(call.weights for call in calls) == pytest.approx(2 * MATRICES, rel=0.02)


def test_mixed_precision_multiplies_in_16_bits_and_moves_more() -> None:
    half, mixed, single = (per_token(name, tokens=TOKENS, config=LLAMA) for name in ("bfloat16", MIXED, "float32"))
    assert mixed.gigaflop == pytest.approx(half.gigaflop)
    assert half.megabytes < single.megabytes < mixed.megabytes
    large = [call for call in calls_of(model_on_meta(MIXED, LLAMA), TOKENS) if "aten.mm" in call.name]
    assert sum(call.products for call in large) == 2 * MATRICES * TOKENS
    assert all(call.is_half for call in large)


def test_the_recurrence_counts_as_one_kernel() -> None:
    calls = calls_of(model_on_meta("float32", HYBRID), TOKENS)
    assert not [call for call in calls if "solve_triangular" in call.name or "conv1d" in call.name]
    assert sum("scaled_dot_product_attention" in call.name for call in calls) == 1


def test_a_call_takes_as_long_as_its_products_or_its_bytes() -> None:
    gpu = GPUS["A100"]
    products = Call("aten.mm", products=1e12, is_half=True, weights=0, activations=8)
    moved = Call("aten.mul", products=0, is_half=True, weights=10**9, activations=10**9)
    assert seconds([products, moved], gpu) == pytest.approx(1e12 / (0.6 * 312e12) + 2e9 / 2e12)
    assert seconds([products._replace(is_half=False)], gpu) == pytest.approx(1e12 / (0.6 * 19.5e12))


def test_mixed_precision_costs_at_most_half_more_than_bfloat16_at_the_papers_size() -> None:
    half, mixed = (per_token(name, tokens=2048) for name in ("bfloat16", MIXED))
    assert mixed.gigaflop == pytest.approx(half.gigaflop)
    assert all(mixed.microseconds[gpu] <= 1.5 * half.microseconds[gpu] for gpu in GPUS)
    assert mixed.kernels <= 1.5 * half.kernels
