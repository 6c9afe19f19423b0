"""The memory of one layer for the tokens read so far: keys and values in a buffer, or the state of a recurrence.

All are layers of transformers' own cache, so that the model's own code runs on them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from transformers.cache_utils import CacheLayerMixin, LinearAttentionLayer


class KeyValueBuffer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one full-attention layer. The buffers hold `capacity` positions, of which `length` count."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        # Empty, not zero: what lies behind `length` is never handed out, and untouched memory costs nothing.
        self.keys = key_states.new_empty((*key_states.shape[:2], self.capacity, key_states.shape[3]))
        self.values = value_states.new_empty((*value_states.shape[:2], self.capacity, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new positions; gives all keys and values so far, without copying them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        start, self.length = self.length, self.length + key_states.shape[2]
        self.keys[:, :, start : self.length] = key_states
        self.values[:, :, start : self.length] = value_states
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.capacity


class NewKeyValues(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Hands on what a layer computed, and keeps nothing: branches write into the buffers when they attend."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


class RecurrentState(NamedTuple):
    """A copy of one recurrent layer's state: convolution and recurrence, or nothing where no token was read yet."""

    convolution: torch.Tensor | None
    recurrence: torch.Tensor | None

    @classmethod
    def copied(cls, layer: LinearAttentionLayer, row: int = 0) -> RecurrentState:
        """Of one row, where the layer read several in a batch."""
        convolution, recurrence = layer.conv_states[0], layer.recurrent_states[0]
        if convolution is None or recurrence is None or not layer.has_previous_state[0]:
            return cls(None, None)
        return cls(convolution[row : row + 1].clone(), recurrence[row : row + 1].clone())

    def in_rows(self, rows: int) -> LinearAttentionLayer:
        """Return a new layer that holds this state once for each row of a batch."""
        layer = LinearAttentionLayer()
        if self.convolution is not None and self.recurrence is not None:
            layer.update_conv_state(self.convolution.repeat_interleave(rows, dim=0))
            layer.update_recurrent_state(self.recurrence.repeat_interleave(rows, dim=0))
        return layer

    def restore(self, layer: LinearAttentionLayer) -> None:
        """Copied once more: the layer writes into its tensors, and the mark may be needed again."""
        layer.reset()
        if self.convolution is not None and self.recurrence is not None:
            layer.update_conv_state(self.convolution)
            layer.update_recurrent_state(self.recurrence)
