"""8-bit weights: a language model whose matrices are rounded to 8-bit integers, as a separate backbone.

Each row of a matrix is rounded to 255 steps of its largest value, each token's input likewise when it comes, and the
products are summed in 32-bit integers by torch's own kernel. So a token's result depends on nothing but the token's own
input: not on the tokens that are read along with it, nor on the number of threads. Per-tensor rounding, which torch's
dynamic quantization does, would make features depend on where a run was cut into pieces.

It computes other numbers than the model it was made from, and has another identity. It is for features, offline and
online alike; harm is measured with the model itself.
"""

from __future__ import annotations

from typing import Any

import torch

from drsr.backbone.matrices import Latest

_LARGEST = 127.0


def with_int8_weights(model: Any) -> Any:
    """Return the model with every matrix of its layers rounded, in place. Embeddings and norms stay as they are."""
    latest = Latest(in_whole_numbers)
    decoder = model.get_decoder()
    for module in list(decoder.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Int8Linear(child, latest))
    return model


def in_whole_numbers(given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers from -127 to 127 for each row, and the step of each row."""
    rows = given.reshape(-1, given.shape[-1])
    steps = rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-30).div_(_LARGEST)
    return (rows / steps).round_().to(torch.int8), steps


class Int8Linear(torch.nn.Module):
    """A linear layer in 8-bit integers."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: torch.nn.Linear, latest: Latest) -> None:
        super().__init__()
        weights = linear.weight.detach().float()
        scale = weights.abs().amax(dim=1).clamp_(min=1e-30).div_(_LARGEST)
        self.register_buffer("weight", (weights / scale[:, None]).round_().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())
        self._latest = latest

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        rounded, steps = self._latest.of(given)
        sums = torch._int_mm(rounded, self.weight.t())  # exact: 32-bit sums of 16-bit products
        found = sums.float().mul_(self.scale).mul_(steps)
        if self.bias is not None:
            found.add_(self.bias)
        return found.reshape(*given.shape[:-1], -1)
