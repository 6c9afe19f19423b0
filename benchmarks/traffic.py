"""Operations, bytes and kernels of the paper's backbone, counted by running its code on no device.

On torch's `meta` device a model runs without numbers, and every call into torch can be counted: the operations of its
products, the bytes that it reads and writes, and whether it starts a kernel at all. Nothing is taken as fused except
what is one kernel on a GPU: attention, and with flash-linear-attention and causal-conv1d the recurrence and its
convolution. From the counts follows a time on GPUs whose peaks are published: each call takes as long as its products
at 60 % of the peak or its bytes, whichever is longer. That is arithmetic and no measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from drsr.backbone import attention
from drsr.backbone.matrices import mixed
from drsr.settings import MIXED

REACHED = 0.6
"""Of a GPU's peak, by products of a forward's size."""


class Gpu(NamedTuple):
    """Peaks as its maker publishes them, per second."""

    half: float
    """Operations of products whose factors have 16 bits."""
    single: float
    """Of float32's."""
    bytes: float


GPUS = {
    "A100": Gpu(half=312e12, single=19.5e12, bytes=2.0e12),
    "H100": Gpu(half=989e12, single=67e12, bytes=3.35e12),
}


class Call(NamedTuple):
    """One call into torch that computes something."""

    name: str
    products: float
    """Floating-point operations of its products."""
    is_half: bool
    weights: int
    """Bytes of the model's own tensors that it reads."""
    activations: int
    """All other bytes that it reads and writes."""


class PerToken(NamedTuple):
    """The cost of one token in a forward."""

    gigaflop: float
    megabytes: float
    """Of activations, read and written."""
    microseconds: dict[str, float]
    """By GPU."""
    kernels: int
    """Of the whole forward."""


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every call that makes a tensor of its own or changes one."""

    def __init__(self, own: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._own = own
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        read = {name: value for name, value in (kwargs or {}).items() if name != "out"}
        given, results = _tensors((args, read)), _tensors(made)
        storages = {one.untyped_storage()._cdata for one in given}
        fresh = [one for one in results if one.untyped_storage()._cdata not in storages]
        if not (fresh or func._schema.is_mutable) or "empty" in str(func):
            return made  # a view, or nothing to compute
        own = [one for one in given if one.untyped_storage()._cdata in self._own]
        others = [one for one in given if one.untyped_storage()._cdata not in self._own]
        weights = sum(map(_size, own)) if "embedding" not in str(func) else 0
        self.calls.append(
            Call(
                str(func),
                _products(str(func), given, results),
                _is_half(given),
                weights,
                sum(map(_size, others + results)),
            )
        )
        return made


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _tensors(part)] if isinstance(value, (tuple, list)) else []


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.itemsize


def _is_half(given: list[torch.Tensor]) -> bool:
    return bool(given) and given[0].itemsize == 2


def _products(name: str, given: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    if "scaled_dot_product_attention" in name:  # causal: on average half of the keys are seen
        return 2.0 * given[0].numel() * given[1].shape[-2]
    if any(kind in name for kind in ("aten.linear", "aten.mm", "aten.matmul")):
        return 2.0 * results[0].numel() * given[0].shape[-1]
    return 0.0


def model_on_meta(precision: str, config: Any | None = None) -> Any:
    """The paper's backbone, or another configuration, without numbers."""
    config = config or transformers.Qwen3_5TextConfig()
    automatic: Any = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = automatic.from_config(config).eval()
        if precision == MIXED:
            with mock.patch.object(mixed, "exponent_of", return_value=0):  # there are no numbers
                return mixed.with_mixed_precision(model.bfloat16())
        attention.register()
        model.set_attn_implementation(attention.IMPLEMENTATION)
        return model.to(getattr(torch, precision))


def calls_of(model: Any, tokens: int) -> list[Call]:
    """Run one forward over so many tokens, without the projection to the vocabulary, and return what it called."""
    own = {one.untyped_storage()._cdata for one in (*model.parameters(), *model.buffers())}
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    with torch.inference_mode(), _fast_kernels(model), _Counting(own) as counting:
        model.get_decoder()(input_ids=ids, use_cache=False)
    calls: list[Call] = counting.calls
    return calls


@contextmanager
def _fast_kernels(model: Any) -> Iterator[None]:
    """The recurrence and its convolution as one call each, as the packages for GPUs have them."""
    module = __import__(type(model.get_decoder()).__module__, fromlist=["_"])
    stand_ins: dict[str, Callable[..., Any]] = {"causal_conv1d_fn": _convolved, "torch_chunk_gated_delta_rule": _ruled}
    with ExitStack() as stack:
        for name, function in stand_ins.items():
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, function))
        yield


def _convolved(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return hidden_states.clone()


def _ruled(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, None]:
    return torch.cat([query, key, value], dim=-1)[..., : value.shape[-1]], None


def seconds(calls: list[Call], gpu: Gpu) -> float:
    """As long as each call's products or its bytes take, one after another."""
    return sum(
        max(
            call.products / (REACHED * (gpu.half if call.is_half else gpu.single)),
            (call.weights + call.activations) / gpu.bytes,
        )
        for call in calls
    )


def per_token(precision: str, *, tokens: int, config: Any | None = None) -> PerToken:
    """Return the cost of one token of a forward in a precision."""
    calls = calls_of(model_on_meta(precision, config), tokens)
    return PerToken(
        gigaflop=sum(call.products for call in calls) / tokens / 1e9,
        megabytes=sum(call.activations for call in calls) / tokens / 1e6,
        microseconds={name: 1e6 * seconds(calls, gpu) / tokens for name, gpu in GPUS.items()},
        kernels=len(calls),
    )
