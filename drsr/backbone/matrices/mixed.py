"""Mixed precision: the matrices of the layers in 16 bits, everything between them in 32.

Harm is a difference of two likelihoods, and in plain half precision what rounding makes of it is as large as what is
measured. Nearly all of that comes from rounding the stream of hidden states after every operation, not from rounding
the weights. So here hidden states, norms, rotary embeddings, recurrences, the final projection and all sums stay in
float32, and only the factors of the large products are rounded, where a GPU has its fast units: the result of a product
is never rounded to 16 bits.

The 16 bits are float16's. They have eleven digits where bfloat16 has eight, at the same price. Their small range does
no harm, because each matrix and each token's input is first multiplied by a power of two, which is exact: a matrix that
was published in bfloat16 is held to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from drsr.backbone.matrices import Latest

HALF = torch.float16
HALF_PRODUCTS = ("cuda", "meta")
"""Devices with a product of 16-bit factors and 32-bit sums. `meta` computes nothing: there a GPU's work is counted."""

_LARGEST_EXPONENT = 14
"""The largest value is scaled to at least 2 to this power and below twice that: float16 reaches almost 2 to the
16th."""

_SMALLEST = 2.0**-86
"""Smaller values do not matter beside the rest of a model, and are not scaled up beyond what their scale allows."""

_EXPONENT_BITS, _MANTISSA_BITS = 0x7F800000, 23
"""Of a float32."""


def with_mixed_precision(model: Any) -> Any:
    """Return the model with every matrix of its layers in 16 bits and all else in float32, in place.

    Its own attention function is ours, which rounds queries, keys and values too: for those who read the model directly
    and for those who continue it.
    """
    from drsr.backbone import attention

    latest = Latest(rounded)
    decoder = model.get_decoder()
    for module in list(decoder.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, MixedLinear(child, latest))
    model.float()  # the matrices are held as buffers of their own kind, see `MixedLinear._apply`
    attention.register()
    model.set_attn_implementation(attention.IMPLEMENTATION)
    for module in decoder.modules():
        if hasattr(module, "layer_idx"):
            module.rounds_attention_to = HALF
    return model


class MixedLinear(torch.nn.Module):
    """A linear layer whose factors have 16 bits and whose sums have 32."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: torch.nn.Linear, latest: Latest) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.exponent = exponent_of(weight)
        """The matrix is `weight` times 2 to this power."""
        self.register_buffer("weight", torch.ldexp(weight.float(), torch.tensor(-self.exponent)).to(HALF))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())
        self._latest = latest

    def _apply(self, fn: Any, recurse: bool = True) -> MixedLinear:
        """Move to a device, and keep the 16 bits even if the rest of the model is converted."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = fn(tensor)
            return found if found.dtype is tensor.dtype else tensor.to(found.device)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        rows, steps = self._latest.of(given)
        found = product(rows, self.weight).mul_(steps * 2.0**self.exponent)
        if self.bias is not None:
            found.add_(self.bias)
        return found.reshape(*given.shape[:-1], -1)


def rounded(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows in 16 bits, each divided by a power of two, and these powers."""
    rows = given.reshape(-1, given.shape[-1]).float()
    steps = powers_below(torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True))
    return torch.div(rows, steps, out=torch.empty_like(rows, dtype=HALF)), steps  # in one pass, without a scaled copy


def product(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply rows by the transposed matrix, both in 16 bits; sum and return in float32."""
    if rows.device.type in HALF_PRODUCTS:
        return torch.mm(rows, weight.t(), out_dtype=torch.float32)
    # A CPU has no such product. Those of 16-bit numbers are exact in float32, so this one has the same roundings.
    return torch.nn.functional.linear(rows.float(), weight.float())


def powers_below(largest: torch.Tensor) -> torch.Tensor:
    """Return the powers of two by which to divide values with these maxima.

    Taken from their bits: `exp2` of a GPU need not be exact.
    """
    exponents = largest.clamp(min=_SMALLEST).view(torch.int32) & _EXPONENT_BITS
    return (exponents - (_LARGEST_EXPONENT << _MANTISSA_BITS)).view(torch.float32)


def exponent_of(weight: torch.Tensor) -> int:
    """Return the power of two that a matrix is divided by."""
    return math.frexp(float(powers_below(weight.abs().amax().float())))[1] - 1
