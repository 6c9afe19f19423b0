"""The backbone's state after a prefix of tokens: extended by new tokens, taken back to a mark, extended otherwise.

    state = Continuation(backbone, capacity=4096)
    state.extend(prefix)
    branch = state.mark()
    hidden = state.extend(one_way)       # only the new tokens are computed
    state.rewind(branch)
    hidden = state.extend(another_way)   # equal to a forward over prefix + another_way

Full-attention layers keep keys and values in buffers of fixed capacity, so going back is a change of length. Recurrent
layers (Gated DeltaNet in Qwen3.5) overwrite their state, so a mark holds a copy of it. Both are layers of transformers'
own cache, and the model's own code runs on them: nothing of a model is written again here.
"""

from __future__ import annotations

import copy
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    LinearAttentionCacheLayerMixin,
    LinearAttentionLayer,
    get_layer_types_and_kwargs,
)

from drsr.backbone import attention
from drsr.backbone.frozen_lm import FrozenLM
from drsr.contracts import TokenIds
from drsr.errors import BackboneError, WindowExceeded

_QUERY_CHUNK = {"cpu": 256, "cuda": 2048}
"""New tokens per forward, by device: on a CPU 256 fit its caches and waste little behind the causal mask, a GPU needs
more to be busy."""

_ROPE_BY_LENGTH = ("dynamic", "longrope")
"""Rotary embeddings that change with the length of the sequence: what was computed for a prefix is then outdated."""


class Watch(Protocol):
    """Looks at an `extend` as it runs. What it is handed is not a copy: it must neither be changed nor kept."""

    @property
    def attention_layers(self) -> frozenset[int]:
        """The full-attention layers (from 1) whose last query and keys it wants."""

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        """Hidden states [n, d] of the positions from `start` after `layer` (from 1); after the last, with final norm.

        Called for every layer and for consecutive runs of new tokens, in order.
        """

    def attention(self, layer: int, query: torch.Tensor, keys: torch.Tensor) -> None:
        """The query [heads, head_dim] of the last new position, and all keys [kv_heads, length, head_dim] up to it."""


class Mark:
    """A place to come back to."""

    def __init__(self, length: int, recurrent: list[_RecurrentState]) -> None:
        self.length = length
        """Tokens up to here."""
        self.recurrent = recurrent
        """Copies of the states of the recurrent layers."""
        self.valid = True
        """False once the continuation went back behind it: the tokens up to here are others now."""


class Continuation:
    """The backbone's state after the tokens it was extended by. Several of one backbone do not disturb each other."""

    def __init__(self, backbone: FrozenLM, capacity: int, *, query_chunk: int | None = None) -> None:
        """`capacity` is the largest number of tokens; memory is taken for that many at the first `extend`.

        `query_chunk` new tokens are computed at once; what suits the device if not given.
        """
        if capacity > backbone.window:
            raise WindowExceeded(f"{capacity} tokens, the window holds {backbone.window}", where=backbone.name)
        self.capacity = capacity
        self._model = _continuing_model(backbone)
        self.query_chunk = query_chunk or _QUERY_CHUNK.get(self._model.device.type, 1024)
        self._attention = [_KeyValueBuffer(capacity) for kind in layer_types(self._model) if kind == "full_attention"]
        self._recurrent = [LinearAttentionLayer() for kind in layer_types(self._model) if kind == "linear_attention"]
        self._cache = Cache(layers=_in_order(layer_types(self._model), self._attention, self._recurrent))
        self._length = 0
        self._marks: weakref.WeakSet[Mark] = weakref.WeakSet()

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self._length

    @torch.inference_mode()
    def extend(self, token_ids: TokenIds, watch: Watch | None = None) -> torch.Tensor:
        """Read one or more tokens; gives their final hidden states [n, d], after the final norm.

        If anything goes wrong on the way, the state is as it was before.
        """
        if not 0 < len(token_ids) <= self.capacity - self._length:
            raise ValueError(f"{len(token_ids)} more tokens after {self._length}, the capacity is {self.capacity}")
        before = self.mark()
        ids = torch.as_tensor(np.asarray(token_ids, dtype=np.int64), device=self._model.device)
        pieces = torch.split(ids, self.query_chunk)
        try:
            hidden = [self._forward(piece, watch, last=piece is pieces[-1]) for piece in pieces]
            return hidden[0] if len(hidden) == 1 else torch.cat(hidden)
        except BaseException:
            self.rewind(before)
            raise

    def _forward(self, piece: torch.Tensor, watch: Watch | None, *, last: bool) -> torch.Tensor:
        with _reports(watch if last else None):
            output = self._model.get_decoder()(
                input_ids=piece[None],
                past_key_values=self._cache,
                use_cache=True,
                output_hidden_states=watch is not None,
            )
        if watch is not None:
            for layer, states in enumerate(output.hidden_states[1:], start=1):  # before them stand the embeddings
                watch.hidden(layer, self._length, states[0])
        self._length += len(piece)
        final: torch.Tensor = output.last_hidden_state[0]
        return final

    @torch.inference_mode()
    def head(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        """Next-token logits [n, vocabulary] from rows of final hidden states."""
        logits: torch.Tensor = self._model.get_output_embeddings()(hidden_rows)
        return logits

    @torch.inference_mode()
    def mark(self) -> Mark:
        """Remember this place. Costs nothing but for recurrent layers, whose state is copied."""
        mark = Mark(self._length, [_RecurrentState.copied(layer) for layer in self._recurrent])
        self._marks.add(mark)
        return mark

    @torch.inference_mode()
    def rewind(self, mark: Mark) -> None:
        """Go back to a place that was marked. It stays marked."""
        if mark not in self._marks or not mark.valid:
            raise ValueError("the mark is another continuation's, or lies in what was taken back")
        for buffer in self._attention:
            buffer.length = mark.length
        for layer, state in zip(self._recurrent, mark.recurrent, strict=True):
            state.restore(layer)
        self._length = mark.length
        for other in self._marks:
            other.valid = other.valid and other.length <= mark.length


class _KeyValueBuffer(CacheLayerMixin):  # type: ignore[no-untyped-call]
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


class _RecurrentState(NamedTuple):
    """A copy of one recurrent layer's state: convolution and recurrence, or nothing where no token was read yet."""

    convolution: torch.Tensor | None
    recurrence: torch.Tensor | None

    @classmethod
    def copied(cls, layer: LinearAttentionLayer) -> _RecurrentState:
        convolution, recurrence = layer.conv_states[0], layer.recurrent_states[0]
        if convolution is None or recurrence is None or not layer.has_previous_state[0]:
            return cls(None, None)
        return cls(convolution.clone(), recurrence.clone())

    def restore(self, layer: LinearAttentionLayer) -> None:
        """Copied once more: the layer writes into its tensors, and the mark may be needed again."""
        layer.reset()
        if self.convolution is not None and self.recurrence is not None:
            layer.update_conv_state(self.convolution)
            layer.update_recurrent_state(self.recurrence)


def _in_order(
    kinds: list[str], buffers: list[_KeyValueBuffer], states: list[LinearAttentionLayer]
) -> list[CacheLayerMixin | LinearAttentionCacheLayerMixin]:
    """The cache's layers in the model's order."""
    next_buffer, next_state = iter(buffers), iter(states)
    return [next(next_buffer) if kind == "full_attention" else next(next_state) for kind in kinds]


def _reports(watch: Watch | None) -> AbstractContextManager[None]:
    return attention.one_forward() if watch is None else attention.one_forward(watch.attention_layers, watch.attention)


def why_not_continuable(backbone: FrozenLM) -> str | None:
    """Why a cached continuation of this model would not be exact, or None: from its settings, without computing."""
    others = set(layer_types(backbone.model)) - {"full_attention", "linear_attention"}
    if others:
        return f"it has layers of type {', '.join(sorted(others))}"
    rope = str(getattr(backbone.model.config.get_text_config(), "rope_parameters", ""))
    if any(f"'{kind}'" in rope for kind in _ROPE_BY_LENGTH):
        return "its rotary embedding changes with the length of the sequence"
    return None


def layer_types(model: Any) -> list[str]:
    """Of each layer in order: `full_attention`, `linear_attention` or another kind."""
    types: list[str] = get_layer_types_and_kwargs(model.config.get_text_config())[0]
    return types


_models: weakref.WeakKeyDictionary[torch.nn.Module, Any] = weakref.WeakKeyDictionary()
_models_lock = threading.Lock()


def _continuing_model(backbone: FrozenLM) -> Any:
    """The backbone's model with our attention function: the same weights in a second set of modules.

    The attention function is a setting of a model's config. Changing it in place would change it for whoever else uses
    the model at that moment, so modules and config are copied, and all tensors shared.
    """
    reason = why_not_continuable(backbone)
    if reason is not None:
        raise BackboneError(f"the model cannot be continued exactly: {reason}", where=backbone.name)
    with _models_lock:
        if backbone.model not in _models:
            attention.register()
            tensors = [*backbone.model.parameters(), *backbone.model.buffers()]
            model = copy.deepcopy(backbone.model, {id(tensor): tensor for tensor in tensors})
            model.set_attn_implementation(attention.IMPLEMENTATION)
            _models[backbone.model] = model
        return _models[backbone.model]
