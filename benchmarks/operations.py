"""Floating-point operations of a causal language model by arithmetic, and the peak this machine reaches at them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch


class Geometry(NamedTuple):
    """The sizes that the operations of a full-attention model follow from. Element-wise work is not counted."""

    weights: int
    """Weights of all matrices in the layers."""
    attention: int
    """Attention layers x heads x size of a head."""
    head_weights: int
    """Weights of the vocabulary projection."""

    @classmethod
    def of(cls, model: Any) -> Geometry:
        config = model.config.get_text_config()
        layers = model.get_decoder().layers
        matrices = [module for module in layers.modules() if isinstance(module, torch.nn.Linear)]
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls(
            weights=sum(matrix.weight.numel() for matrix in matrices),
            attention=len(layers) * config.num_attention_heads * size,
            head_weights=model.get_output_embeddings().weight.numel(),
        )

    def extension(self, tokens: int, before: int) -> float:
        """Of reading more tokens after others: each attends to all up to itself."""
        pairs = tokens * before + tokens * (tokens + 1) / 2
        return 2 * self.weights * tokens + 4 * self.attention * pairs

    def head(self, rows: int) -> float:
        """Return the operations for the logits of some positions."""
        return 2 * self.head_weights * rows

    def forward(self, tokens: int) -> float:
        """Return the operations of one forward over a sequence with logits everywhere."""
        return self.extension(tokens, 0) + self.head(tokens)


def gemm_peak(turns: int = 5) -> float:
    """Return the most operations per CPU second at fp32 matrix multiplications of several shapes, with the threads as
    set."""
    best = 0.0
    for rows, inner, columns in [(2048, 2048, 2048), (512, 576, 1536), (256, 1536, 576)]:
        one, other = torch.randn(rows, inner), torch.randn(columns, inner)
        repeats = max(1, 2**33 // (rows * inner * columns) // 8)
        for _ in range(turns):
            start = time.process_time()
            for _ in range(repeats):
                torch.nn.functional.linear(one, other)
            seconds = time.process_time() - start
            best = max(best, 2 * rows * inner * columns * repeats / seconds)
    return best
