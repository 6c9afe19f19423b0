"""Our attention function against the formula written out, for fewer queries than keys and grouped heads."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from drsr.backbone import attention
from drsr.backbone.attention import (
    Branch,
    Kernel,
    by_group,
    causal_attention,
    kernel_for,
    one_forward,
    one_forward_of_branches,
)
from drsr.errors import BackboneError
from tests.tiny_backbones import DEVICES

LAYER = SimpleNamespace(layer_idx=3)


def tensors(new: int, length: int, heads: int, kv_heads: int, dim: int, device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(new * 1000 + length)
    shapes = [(1, heads, new, dim), (1, kv_heads, length, dim), (1, kv_heads, length, dim)]
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


def written_out(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    """Position by position and head by head: query i of the new ones stands at position length - new + i."""
    new, length = query.shape[2], key.shape[2]
    group = query.shape[1] // key.shape[1]
    result = torch.empty(1, new, query.shape[1], query.shape[3], device=query.device)
    for head in range(query.shape[1]):
        for i in range(new):
            seen = length - new + i + 1
            keys, values = key[0, head // group, :seen], value[0, head // group, :seen]
            weights = torch.softmax(scale * (keys @ query[0, head, i]), dim=0)
            result[0, i, head] = weights @ values
    return result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("new", "length", "heads", "kv_heads", "dim"),
    [(1, 1, 2, 2, 8), (1, 9, 4, 2, 8), (5, 5, 4, 2, 8), (3, 11, 9, 3, 64), (40, 97, 4, 1, 16), (2, 7, 4, 2, 256)],
)
def test_equals_the_formula(new: int, length: int, heads: int, kv_heads: int, dim: int, device: str) -> None:
    query, key, value = tensors(new, length, heads, kv_heads, dim, device)
    with one_forward():
        result, weights = causal_attention(LAYER, query, key, value, None, scaling=0.3)
    assert weights is None
    torch.testing.assert_close(result, written_out(query, key, value, 0.3), atol=2e-6, rtol=1e-5)


def test_forwards_of_different_shapes_do_not_share_a_mask() -> None:
    with one_forward():
        for new, length in [(3, 8), (3, 9), (4, 9)]:
            query, key, value = tensors(new, length, 2, 1, 8, "cpu")
            result, _ = causal_attention(LAYER, query, key, value, None, scaling=1.0)
            torch.testing.assert_close(result, written_out(query, key, value, 1.0), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("new", "length"), [(1, 9), (5, 5), (40, 97)])
def test_half_precision_equals_the_formula_up_to_its_rounding(
    new: int, length: int, dtype: torch.dtype, device: str
) -> None:
    """On a GPU another kernel computes it, without a mask."""
    query, key, value = (tensor.to(dtype) for tensor in tensors(new, length, 4, 2, 64, device))
    with one_forward():
        result, _ = causal_attention(LAYER, query, key, value, None, scaling=0.3)
    expected = written_out(query.float(), key.float(), value.float(), 0.3)
    torch.testing.assert_close(result.float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_branches_attend_over_their_own_beginnings(device: str) -> None:
    """Each as if it were alone; what is written lies where the next branch finds or overwrites it."""
    _, keys, values = tensors(1, 30, 4, 2, 8, device)
    query, key, value = tensors(12, 12, 4, 2, 8, device)
    branches = [Branch(slice(0, 5), 10), Branch(slice(5, 9), 12), Branch(slice(9, 12), 4)]

    def write(layer: int, start: int, new_keys: torch.Tensor, new_values: torch.Tensor) -> Any:
        assert layer == 4
        stop = start + new_keys.shape[2]
        keys[:, :, start:stop], values[:, :, start:stop] = new_keys, new_values
        return keys[:, :, :stop], values[:, :, :stop]

    expected_keys, expected_values, expected = keys.clone(), values.clone(), []
    for branch in branches:
        stop = branch.start + branch.rows.stop - branch.rows.start
        expected_keys[:, :, branch.start : stop] = key[:, :, branch.rows]
        expected_values[:, :, branch.start : stop] = value[:, :, branch.rows]
        alone = (query[:, :, branch.rows], expected_keys[:, :, :stop], expected_values[:, :, :stop])
        expected.append(written_out(*alone, 0.3))
    with one_forward_of_branches(branches, write):
        result, _ = causal_attention(LAYER, query, key, value, None, scaling=0.3)
    torch.testing.assert_close(result, torch.cat(expected, dim=1), atol=2e-6, rtol=1e-5)


def test_works_outside_of_any_forward() -> None:
    query, key, value = tensors(3, 8, 2, 1, 8, "cpu")
    result, _ = causal_attention(LAYER, query, key, value, None, scaling=1.0)
    torch.testing.assert_close(result, written_out(query, key, value, 1.0), atol=2e-6, rtol=1e-5)


def test_reports_the_queries_and_all_keys_of_chosen_layers() -> None:
    query, key, value = tensors(3, 8, 4, 2, 8, "cpu")
    reported: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    with one_forward(frozenset({4}), lambda *report: reported.append(report)):
        causal_attention(LAYER, query, key, value, None)
        causal_attention(SimpleNamespace(layer_idx=4), query, key, value, None)  # layer 5: nobody asked
    ((layer, queries, keys),) = reported
    assert layer == 4
    assert torch.equal(queries, query[0])
    assert torch.equal(keys, key[0])
    causal_attention(LAYER, query, key, value, None)  # and none after the forward
    assert len(reported) == 1


def test_a_report_reaches_only_the_thread_that_asked() -> None:
    query, key, value = tensors(2, 5, 2, 2, 8, "cpu")
    reported: dict[str, list[int]] = {"one": [], "other": []}
    both_inside = threading.Barrier(2)

    def forward(name: str, layer: int) -> None:
        with one_forward(frozenset({layer}), lambda layer, *_: reported[name].append(layer)):
            both_inside.wait(timeout=30)
            for index in range(6):
                causal_attention(SimpleNamespace(layer_idx=index), query, key, value, None)
            both_inside.wait(timeout=30)

    threads = [threading.Thread(target=forward, args=arguments) for arguments in [("one", 2), ("other", 5)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reported == {"one": [2], "other": [5]}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sliding_window": 128}, "sliding_window"),
        ({"softcap": 50.0}, "softcap"),
        ({"s_aux": torch.zeros(2)}, "s_aux"),
        ({"position_bias": torch.zeros(2)}, "position_bias"),
        ({"is_causal": False}, "bidirectional"),
        ({"dropout": 0.1}, "dropout"),
        ({"attention_mask": torch.zeros(1, 1, 2, 5)}, "attention_mask"),
    ],
)
def test_refuses_what_would_change_the_numbers(settings: dict[str, Any], said: str) -> None:
    query, key, value = tensors(2, 5, 2, 2, 8, "cpu")
    with pytest.raises(BackboneError, match=said):
        causal_attention(LAYER, query, key, value, settings.pop("attention_mask", None), **settings)


@pytest.mark.parametrize(
    ("device", "dtype", "new", "length", "kernel"),
    [
        ("cuda", torch.float32, 2048, 55_296, Kernel.EFFICIENT),
        ("cuda", torch.float32, 2048, 2048, Kernel.EFFICIENT),
        ("cuda", torch.float16, 2048, 55_296, Kernel.FLASH),
        ("cuda", torch.bfloat16, 300, 300, Kernel.FLASH),
        ("cuda", torch.float32, 1, 55_296, Kernel.EFFICIENT),
        ("cpu", torch.float32, 1, 55_296, Kernel.PLAIN),
        ("cpu", torch.float32, 256, 4_000, Kernel.MASK),
        ("cpu", torch.bfloat16, 256, 256, Kernel.PLAIN),
        ("mps", torch.float32, 256, 4_000, Kernel.MASK),
    ],
)
def test_the_kernel_is_chosen_by_device_and_precision(
    device: str, dtype: torch.dtype, new: int, length: int, kernel: Kernel
) -> None:
    assert kernel_for(device, dtype, new, length) is kernel


def test_on_a_gpu_no_mask_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated GPU: the choice is real, and torch's own dispatch of a lower-right mask computes on the CPU."""
    real, chosen = kernel_for, []

    def as_on_a_gpu(device: str, dtype: torch.dtype, new: int, length: int) -> Kernel:
        chosen.append(real("cuda", dtype, new, length))
        return chosen[-1]

    def refuse(self: Any, query: torch.Tensor, keys: int) -> torch.Tensor:
        raise AssertionError(f"a mask of {query.shape[2]} x {keys} was built")

    monkeypatch.setattr(attention, "kernel_for", as_on_a_gpu)
    monkeypatch.setattr(attention._Forward, "mask", refuse)
    monkeypatch.setattr(attention, "_only", lambda kernel: contextlib.nullcontext())
    for new, length in [(40, 97), (5, 5), (1, 97)]:
        query, key, value = tensors(new, length, 4, 2, 16, "cpu")
        with one_forward():
            found, _ = causal_attention(LAYER, query, key, value, None, scaling=0.3)
        torch.testing.assert_close(found, written_out(query, key, value, 0.3), atol=2e-6, rtol=1e-5)
    assert chosen == [Kernel.EFFICIENT] * 3


def test_heads_of_a_group_share_keys_that_are_not_copied() -> None:
    query, key, value = tensors(3, 9, 8, 2, 16, "cpu")
    queries, keys, values = by_group(query, key, value)
    assert queries.shape == (2, 4, 3, 16)
    assert keys.shape == values.shape == (2, 4, 9, 16)
    assert keys.data_ptr() == key.data_ptr()
    assert keys.stride(1) == values.stride(1) == 0


def test_a_gpu_without_the_kernel_is_named() -> None:
    """Torch says so, and we say what to do."""
    named = pytest.raises(BackboneError, match="cannot compute attention by the efficient kernel")
    with named as refusal, attention._only(Kernel.EFFICIENT):
        raise RuntimeError("No available kernel. Aborting execution.")
    assert "float16-mixed" in str(refusal.value.hint)
    with pytest.raises(RuntimeError, match="another"), attention._only(Kernel.EFFICIENT):
        raise RuntimeError("another fault")
