"""Mixed precision: exact scaling, products that are summed in float32, and what rounding leaves of it."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import transformers

from drsr.backbone import attention
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.matrices import Latest
from drsr.backbone.matrices.mixed import HALF, MixedLinear, powers_below, rounded, with_mixed_precision
from drsr.backbone.tokenizer import HfTokenizer
from drsr.offline.label.target_nll import AGREEMENT, Method, Pair, TargetNll, direct_nll, dtype_of
from drsr.settings import MIXED
from tests.tiny_backbones import as_backbone, fresh_backbone, small_backbone
from tests.tiny_models import WINDOW, tokenizer_json


def exact(architecture: str) -> FrozenLM:
    if architecture == "qwen2":
        return small_backbone(transformers.Qwen2Config)
    return fresh_backbone("qwen3_5" if architecture == "qwen3_5" else "llama")


def mixed(backbone: FrozenLM) -> FrozenLM:
    model = with_mixed_precision(copy.deepcopy(backbone.model))
    tokenizer = HfTokenizer(tokenizer_json())
    return FrozenLM(model, tokenizer, name="mixed", identity="mixed", window=WINDOW, precision=MIXED)


def tokens(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.random.default_rng(seed).integers(0, 500, count).astype(np.int32)


def written_out(layer: MixedLinear, given: torch.Tensor) -> torch.Tensor:
    """Number by number: factors rounded to eleven binary digits, products and sums in float64."""
    weight = (layer.weight.double() * 2.0**layer.exponent).numpy()
    rows = []
    for row in given.double().numpy():
        largest = np.abs(row).max()
        scale = 2.0 ** (np.frexp(largest)[1] - 15) if largest else 1.0
        rows.append(weight @ ((row / scale).astype(np.float16).astype(np.float64) * scale))
    bias = 0 if layer.bias is None else layer.bias.double().numpy()
    return torch.from_numpy(np.stack(rows) + bias)


@pytest.mark.parametrize("size", [1e-6, 1.0, 3e7])
def test_a_product_is_that_of_rounded_factors_whatever_their_size(size: float) -> None:
    generator = torch.Generator().manual_seed(1)
    linear = torch.nn.Linear(48, 20, bias=False)
    linear.weight.data = torch.randn(20, 48, generator=generator) / 8
    given = torch.randn(7, 48, generator=generator) * size
    given[3] = 0
    layer = MixedLinear(linear, Latest(rounded))
    assert layer.weight.dtype is HALF
    found = layer(given)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found.double(), written_out(layer, given), atol=2e-6 * size, rtol=2e-6)
    apart = (found - given @ linear.weight.detach().T).abs().max() / size
    assert 0 < apart < 5e-3, "rounded, and by little"


def test_rows_are_scaled_by_the_power_of_two_that_fits() -> None:
    """The slow twin: by the exponent that the standard library finds."""
    largest = torch.tensor([2.0**exponent * factor for exponent in range(-80, 120) for factor in (1.0, 1.5, 1.9999999)])
    expected = [2.0 ** (math.frexp(value)[1] - 15) for value in largest.tolist()]
    assert powers_below(largest).tolist() == expected
    assert powers_below(torch.zeros(1)).item() == 2.0**-100


def test_an_input_is_rounded_once_for_all_matrices_that_read_it() -> None:
    calls: list[int] = []

    def counted(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(len(given))
        return rounded(given)

    latest = Latest(counted)
    one, other = (MixedLinear(torch.nn.Linear(8, 4), latest) for _ in range(2))
    given = torch.randn(3, 8)
    found = one(given), other(given)
    assert calls == [3]
    again = given.clone() * 2
    assert not torch.equal(one(again), found[0])
    assert calls == [3, 3], "another input, though equally large, is rounded anew"


def test_a_matrix_published_in_bfloat16_is_held_to_the_last_bit() -> None:
    linear = torch.nn.Linear(64, 64, bias=False)
    published = (linear.weight.detach() * 1e-4).bfloat16()
    linear.weight.data = published.float()
    layer = MixedLinear(linear, Latest(rounded))
    assert torch.equal(layer.weight.float() * 2.0**layer.exponent, published.float())


def test_the_matrices_keep_their_16_bits_and_all_else_has_32() -> None:
    model = mixed(exact("llama")).model.to("cpu", torch.float32)
    held = {name: buffer for name, buffer in model.named_buffers() if name.endswith("proj.weight")}
    assert len(held) == 4 * 7  # four layers: queries, keys, values, output, gate, up, down
    assert {buffer.dtype for buffer in held.values()} == {HALF}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.get_output_embeddings().weight.dtype is torch.float32


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3_5"])
def test_it_is_nearer_to_float32_than_bfloat16_is(architecture: str) -> None:
    backbone = exact(architecture)
    rounded, half = mixed(backbone), as_backbone(copy.deepcopy(backbone.model).bfloat16())
    apart = {"mixed": 0.0, "bfloat16": 0.0}
    for seed in range(3):
        context, target = tokens(90, seed), tokens(30, 10 + seed)
        nll = direct_nll(backbone, context, target)
        apart["mixed"] += abs(direct_nll(rounded, context, target) - nll)
        apart["bfloat16"] += abs(direct_nll(half, context, target) - nll)
    assert 0 < apart["mixed"] < apart["bfloat16"] / 2


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3_5"])
def test_shared_prefixes_agree_with_each_context_on_its_own(architecture: str) -> None:
    backbone = mixed(exact(architecture))
    assert dtype_of(backbone) == MIXED
    scorer = TargetNll(backbone, query_chunk=24)
    scorer.verify(tokens(300, 0))
    assert scorer.method is Method.SHARED_PREFIX, scorer.why
    pairs = [Pair(np.concatenate([tokens(60, 1), tokens(20, seed)]), tokens(12, 2)) for seed in range(4)]
    for found, pair in zip(scorer.score(pairs).nlls, pairs, strict=True):
        assert isinstance(found, float)
        assert found == pytest.approx(direct_nll(backbone, *pair), abs=AGREEMENT[MIXED])


def test_attention_rounds_its_factors_only_in_a_mixed_model() -> None:
    backbone = mixed(exact("llama"))
    seen = [module.rounds_attention_to for module in backbone.model.modules() if hasattr(module, "rounds_attention_to")]
    assert seen == [HALF] * 4
    assert backbone.model.config._attn_implementation == attention.IMPLEMENTATION
    query, key, value = (torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(n)) for n in range(3))
    module = torch.nn.Module()
    module.layer_idx = 0  # type: ignore[assignment]
    plain, _ = attention.causal_attention(module, query, key, value, None, scaling=0.3)
    module.rounds_attention_to = HALF  # type: ignore[assignment]
    rounded, _ = attention.causal_attention(module, query, key, value, None, scaling=0.3)
    halves = [tensor.half().float() for tensor in (query, key, value)]
    again, _ = attention.causal_attention(module, halves[0], halves[1], halves[2], None, scaling=0.3)
    assert not torch.equal(plain, rounded)
    assert torch.equal(rounded, again)
    assert rounded.dtype is torch.float32
