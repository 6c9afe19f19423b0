"""The memory of a walk and its division: keys and values, one forward's activations, logits.

The keys and values of the longest path must fit, or its pair is excluded with the reason; forwards and logits are made
as small as the rest demands. The model itself is not counted, nor what features keep of each state (a few MB). In
hybrid models a branch keeps a copy of the recurrent states, which counts like keys and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import SMALLEST_CHUNK

MEGABYTE = 1 << 20
DEFAULT_MEGABYTES = 8192
LOGIT_BYTES = 64 << 20
"""More logits at a time make nothing faster."""


class Room(NamedTuple):
    """The memory that a walk over one tree may take, in bytes."""

    total: int
    per_token: int
    """Keys and values of one token, in all layers."""
    per_mark: int
    """The copy of the recurrent states that a branch keeps."""
    per_query: int
    """About what one new token takes while it goes through the model, with its hidden states after every layer."""

    def state(self, tokens: int, marks: int) -> int:
        """After so many tokens, with so many branches open."""
        return tokens * self.per_token + marks * self.per_mark

    def holds(self, tokens: int, marks: int) -> bool:
        """Return whether that state leaves enough to compute with."""
        return self.state(tokens, marks) + SMALLEST_CHUNK * self.per_query <= self.total

    def query_chunk(self, tokens: int, marks: int, suits: int) -> int:
        """New tokens per forward: what suits the device, or fewer."""
        left = self.total - self.state(tokens, marks)
        return max(SMALLEST_CHUNK, min(suits, left // 2 // self.per_query))

    def logit_bytes(self, tokens: int, marks: int) -> int:
        """Of the logits that exist at a time."""
        return max(1, min(LOGIT_BYTES, (self.total - self.state(tokens, marks)) // 4))


def room_for(backbone: FrozenLM, megabytes: int = DEFAULT_MEGABYTES) -> Room:
    """Return how far a number of megabytes reaches with this model."""
    from drsr.backbone.continuation import layer_types

    config = backbone.model.config.get_text_config()
    size = backbone.model.dtype.itemsize
    kinds = layer_types(backbone.model)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Room(
        total=megabytes * MEGABYTE,
        per_token=kinds.count("full_attention") * 2 * _key_value_heads(config) * head * size,
        per_mark=kinds.count("linear_attention") * _recurrent_numbers(config) * 4,  # a recurrence may run in fp32
        per_query=(4 * config.intermediate_size + (8 + len(kinds)) * config.hidden_size) * size,
    )


def _key_value_heads(config: Any) -> int:
    """Models that know no groups have as many as query heads."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def _recurrent_numbers(config: Any) -> int:
    """Of one Gated DeltaNet layer: what its convolution and its recurrence remember."""
    if not hasattr(config, "linear_num_value_heads"):
        return 0
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    values = config.linear_num_value_heads * config.linear_value_head_dim
    return int((2 * keys + values) * config.linear_conv_kernel_dim + values * config.linear_key_head_dim)
