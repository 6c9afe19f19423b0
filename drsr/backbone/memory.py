"""A device's memory: whether an error says that it ran out, where a model is placed, and how far a budget reaches.

The budget is for what comes on top of the loaded model: keys and values, one forward's activations, logits. The keys
and values of the longest sequence must fit, or there is a named refusal; forwards and logits are made as small as the
rest demands. What features keep of each state (a few MB) is not counted. In hybrid models a mark keeps a copy of the
recurrent states, which counts like keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.errors import NotEnoughMemory

if TYPE_CHECKING:
    from drsr.backbone.frozen_lm import FrozenLM

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")
"""Torch's words for it, by device."""
SMALLEST_CHUNK = 16
"""Tokens per forward below which a smaller forward saves nothing worth its time."""
ROOM_TO_WORK = 1.2
"""A model fills one GPU only if its weights times this fit: keys, values and activations come on top."""
SPREAD = "auto"
"""The device map that lets accelerate spread a model over all GPUs."""
MEGABYTE = 1 << 20
DEFAULT_MEGABYTES = 8192
LOGIT_BYTES = 64 << 20
"""More logits at a time make nothing faster."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the memory of a device, or of the machine, did not suffice."""
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    return said or isinstance(error, (MemoryError, NotEnoughMemory))


def too_large_for(device: str, what: str, complaint: str) -> NotEnoughMemory:
    """Return the error for a model that does not fit on a device."""
    others = "cuda without a number spreads it over all GPUs, " if device.startswith("cuda:") else ""
    return NotEnoughMemory(
        f"the weights do not fit into the memory of {device}: {complaint}",
        where=what,
        hint=f"{others}DRSR_DTYPE=float16-mixed halves them, otherwise a smaller backbone or DRSR_DEVICE=cpu",
    )


def weight_bytes(folder: Path) -> int:
    """Return the size of a model's weights as they lie in its folder."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def spread_over(device: str, size: int, free: Sequence[int]) -> str | None:
    """Return how to spread a model over several GPUs, None where one holds it or a single one was asked for.

    `free` is what each GPU has free, in bytes; `size` what the weights take there.
    """
    if device != "cuda" or len(free) < 2 or size * ROOM_TO_WORK <= free[0]:
        return None
    return SPREAD


def free_on_gpus() -> list[int]:
    """Return the free bytes of each GPU of this machine."""
    import torch

    return [torch.cuda.mem_get_info(number)[0] for number in range(torch.cuda.device_count())]


class Room(NamedTuple):
    """The memory that reading may take, in bytes."""

    total: int
    per_token: int
    """Keys and values of one token, in all layers."""
    per_mark: int
    """The copy of the recurrent states that a mark, such as an open branch, keeps."""
    per_query: int
    """About what one new token takes while it goes through the model, with its hidden states after every layer."""

    def state(self, tokens: int, marks: int) -> int:
        """After so many tokens, with so many marks."""
        return tokens * self.per_token + marks * self.per_mark

    def holds(self, tokens: int, marks: int) -> bool:
        """Return whether that state leaves enough to compute with."""
        return self.state(tokens, marks) + SMALLEST_CHUNK * self.per_query <= self.total

    def require(self, tokens: int, marks: int, where: str) -> None:
        """Raise NotEnoughMemory unless it holds that state."""
        if self.holds(tokens, marks):
            return
        needed = (self.state(tokens, marks) + SMALLEST_CHUNK * self.per_query) // MEGABYTE + 1
        raise NotEnoughMemory(
            f"reading {tokens} tokens takes {needed} MB above the model, {self.total // MEGABYTE} are allowed",
            where=where,
            hint="allow more where there is more (label_memory_mb offline, load(memory_mb=...) online), or use a light "
            "policy",
        )

    def to_grow_into(self, marks: int) -> int:
        """Return how many tokens half of it holds: the other half is for computing."""
        return max(0, self.total // 2 - marks * self.per_mark) // max(1, self.per_token)

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
