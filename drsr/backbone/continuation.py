"""The backbone's state after a prefix of tokens: extended by new tokens, taken back to a mark, extended otherwise.

    state = Continuation(backbone, capacity=4096)
    state.extend(prefix)
    branch = state.mark()
    hidden = state.extend(one_way)       # only the new tokens are computed
    state.rewind(branch)
    hidden = state.extend(another_way)   # equal to a forward over prefix + another_way

Small branches are read together, in one forward: `extend_branches`, or `extend_siblings` with recurrent layers.

Full-attention layers keep keys and values in buffers of fixed capacity, so going back is a change of length. Recurrent
layers (Gated DeltaNet in Qwen3.5) overwrite their state, so a mark holds a copy of it. Both are layers of transformers'
own cache, and the model's own code runs on them: nothing of a model is written again here.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    LinearAttentionCacheLayerMixin,
    LinearAttentionLayer,
    get_layer_types_and_kwargs,
)

from drsr.backbone import attention
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.layer_states import KeyValueBuffer, NewKeyValues, RecurrentState
from drsr.backbone.memory import SMALLEST_CHUNK, is_out_of_memory, room_for
from drsr.errors import BackboneError, NotEnoughMemory, WindowExceeded
from drsr.request.contracts import TokenIds

_QUERY_CHUNK = {"cpu": 256, "cuda": 2048}
"""New tokens per forward, by device: on a CPU 256 fit its caches and waste little behind the causal mask, a GPU needs
more to be busy."""

_ROPE_BY_LENGTH = ("dynamic", "longrope")
"""Rotary embeddings that change with the length of the sequence: what was computed for a prefix is then outdated."""


class Watch(Protocol):
    """Looks at an `extend` as it runs. What it is handed is not a copy: it must neither be changed nor kept."""

    @property
    def attention_layers(self) -> frozenset[int]:
        """The full-attention layers (from 1) whose queries and keys it wants."""

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        """Hidden states [n, d] of the positions from `start` after `layer` (from 1); after the last, with final norm.

        Called for every layer and for consecutive runs of new tokens, in order.
        """

    def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        """The queries [heads, n, head_dim] of consecutive new positions, and all keys [kv_heads, length, head_dim] up
        to the last of them. A run that failed for want of memory may be shown again, in smaller ones.
        """


class Segment(NamedTuple):
    """Some tokens of a branch."""

    start: int
    """The number of tokens that come before them."""
    token_ids: TokenIds
    watch: Watch | None = None

    @property
    def stop(self) -> int:
        """Tokens up to and with its own."""
        return self.start + len(self.token_ids)


class Mark:
    """A place to come back to."""

    def __init__(self, length: int, recurrent: list[RecurrentState]) -> None:
        self.length = length
        """Tokens up to here."""
        self.recurrent = recurrent
        """Copies of the states of the recurrent layers."""
        self.valid = True
        """False once the continuation went back past it: other tokens now lead up to here."""


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
        self._attention = [KeyValueBuffer(capacity) for kind in layer_types(self._model) if kind == "full_attention"]
        self._recurrent = [LinearAttentionLayer() for kind in layer_types(self._model) if kind == "linear_attention"]
        self._cache = Cache(layers=_in_order(layer_types(self._model), self._attention, self._recurrent))
        self._new_only = Cache(layers=[NewKeyValues() for _ in self._attention])
        self._length = 0
        self._is_sound = True
        """False after going back was interrupted: recurrent layers may then be at different places."""
        self._marks: weakref.WeakSet[Mark] = weakref.WeakSet()

    @classmethod
    def within(cls, backbone: FrozenLM, capacity: int, megabytes: int, *, marks: int = 1) -> Continuation:
        """Make a continuation that takes at most so much memory above the model, with so many marks, by smaller
        forwards if needed. Raise NotEnoughMemory, before anything is read, if its state alone would take more."""
        room = room_for(backbone, megabytes)
        room.require(capacity, marks, backbone.name)
        made = cls(backbone, capacity)
        if not backbone.rounds_inputs:  # which must always be read in the same pieces
            made.query_chunk = room.query_chunk(capacity, marks, made.query_chunk)
        return made

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
        if not self._is_sound:
            raise BackboneError("going back was interrupted: go back to a mark once more")
        before = self.mark()
        ids = torch.as_tensor(np.asarray(token_ids, dtype=np.int64), device=self._model.device)
        pieces = torch.split(ids, self.query_chunk)
        try:
            hidden = [self._forward(piece, watch) for piece in pieces]
            return hidden[0] if len(hidden) == 1 else torch.cat(hidden)
        except BaseException:
            self.rewind(before)
            raise

    def extend_as_memory_allows(self, token_ids: TokenIds, watch: Watch | None = None) -> None:
        """Read tokens as `extend` does, in smaller forwards where memory does not suffice for larger ones.

        NotEnoughMemory if the smallest does not fit either; what was read before it stays read.
        """
        done = 0
        while done < len(token_ids):
            piece = token_ids[done : done + self.query_chunk]
            complaint = self._try_extend(piece, watch)
            if complaint is None:
                done += len(piece)
            elif len(piece) > SMALLEST_CHUNK:
                self.query_chunk = max(SMALLEST_CHUNK, len(piece) // 2)
            else:
                raise NotEnoughMemory(
                    f"{len(piece)} tokens after {self._length} of {self.capacity}: {complaint}",
                    where=str(self._model.device),
                    hint="use a device with more memory, a backbone with a smaller window, or a light policy",
                )

    def _try_extend(self, piece: TokenIds, watch: Watch | None) -> str | None:
        """Return what was said when memory did not suffice: as a text, for the error keeps the forward's tensors."""
        try:
            self.extend(piece, watch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return str(error).partition("\n")[0]
        return None

    def _forward(self, piece: torch.Tensor, watch: Watch | None) -> torch.Tensor:
        with _reports(watch):
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

    @property
    def reads_branches_together(self) -> bool:
        """Return whether `extend_branches` can be used. A recurrent layer takes one sequence for one branch."""
        return not self._recurrent

    @torch.inference_mode()
    def extend_branches(self, segments: Sequence[Segment]) -> list[torch.Tensor]:
        """For each segment in turn: go back to its start, read its tokens. All of them in one forward.

        Gives the final hidden states [n, d] of each. If anything goes wrong on the way, what no segment has written
        over is still there: as many tokens as the earliest of them follows.
        """
        if not self.reads_branches_together:
            raise ValueError("the model has recurrent layers: extend one branch after another, or siblings")
        self._refuse_misplaced(segments)
        unharmed = min(segment.start for segment in segments)
        self._forget_marks(behind=unharmed)
        try:
            hidden = self._forward_branches(segments)
        except BaseException:
            self._cut(unharmed)
            raise
        self._cut(segments[-1].stop)
        return hidden

    @torch.inference_mode()
    def extend_siblings(self, segments: Sequence[Segment]) -> list[torch.Tensor]:
        """Read several ways on from here in one forward, and go on with the last of them, which is the longest.

        Each is a row of a batch, filled up on the right. Layers only look back, so what fills a row up changes none of
        its hidden states, but it does change the state that a recurrent layer ends in: only the longest row's is of
        use. Gives the final hidden states [n, d] of each. If anything goes wrong on the way, the state is as it was.
        """
        before, longest = self._length, segments[-1].stop
        if any(segment.start != before or segment.stop > longest for segment in segments):
            raise ValueError(f"siblings all begin at {before}, where the state is, and the last is the longest")
        self._refuse_misplaced(segments)
        if not self._is_sound:
            raise BackboneError("going back was interrupted: go back to a mark once more")
        rows = [RecurrentState.copied(layer).in_rows(len(segments)) for layer in self._recurrent]
        try:
            hidden = self._forward_siblings(segments, rows)
        except BaseException:
            self._cut(before)
            raise
        self._is_sound = False
        for layer, batch in zip(self._recurrent, rows, strict=True):
            RecurrentState.copied(batch, len(segments) - 1).restore(layer)
        self._cut(longest)
        self._is_sound = True
        return hidden

    def _refuse_misplaced(self, segments: Sequence[Segment]) -> None:
        end = self._length
        for segment in segments:
            if not (segment.start <= end and segment.start < segment.stop <= self.capacity):
                placed = f"{len(segment.token_ids)} tokens at {segment.start} after {end}"
                raise ValueError(f"{placed}, the capacity is {self.capacity}")
            end = segment.stop

    def _forward_branches(self, segments: Sequence[Segment]) -> list[torch.Tensor]:
        ids = np.concatenate([segment.token_ids for segment in segments]).astype(np.int64)
        positions = np.concatenate([np.arange(segment.start, segment.stop) for segment in segments])
        lengths = [len(segment.token_ids) for segment in segments]
        ends = np.cumsum(lengths).tolist()
        branches = [
            _branch(segment, slice(end - n, end)) for segment, n, end in zip(segments, lengths, ends, strict=True)
        ]
        return self._forward_all(segments, branches, ids[None], positions[None], self._new_only)

    def _forward_siblings(self, segments: Sequence[Segment], rows: list[LinearAttentionLayer]) -> list[torch.Tensor]:
        longest = segments[-1]
        ids = np.zeros((len(segments), len(longest.token_ids)), dtype=np.int64)
        for row, segment in enumerate(segments):
            ids[row, : len(segment.token_ids)] = segment.token_ids
        branches = [_branch(segment, slice(len(segment.token_ids)), row) for row, segment in enumerate(segments)]
        positions = np.tile(np.arange(longest.start, longest.stop), (len(segments), 1))
        new_only = [NewKeyValues() for _ in self._attention]
        cache = Cache(layers=_in_order(layer_types(self._model), new_only, rows))
        return self._forward_all(segments, branches, ids, positions, cache)

    def _forward_all(
        self,
        segments: Sequence[Segment],
        branches: Sequence[attention.Branch],
        ids: NDArray[np.int64],
        positions: NDArray[np.int64],
        cache: Cache,
    ) -> list[torch.Tensor]:
        watched = any(segment.watch is not None for segment in segments)
        with attention.one_forward_of_branches(branches, self._write):
            output = self._model.get_decoder()(
                input_ids=torch.as_tensor(ids, device=self._model.device),
                position_ids=torch.as_tensor(positions, device=self._model.device),
                past_key_values=cache,
                use_cache=True,
                output_hidden_states=watched,
            )
        for branch, segment in zip(branches, segments, strict=True):
            if segment.watch is not None:
                for layer, states in enumerate(output.hidden_states[1:], start=1):  # before them stand the embeddings
                    segment.watch.hidden(layer, segment.start, states[branch.sequence, branch.rows])
        return [output.last_hidden_state[branch.sequence, branch.rows] for branch in branches]

    def _write(
        self, layer: int, start: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        buffer = self._cache.layers[layer - 1]
        assert isinstance(buffer, KeyValueBuffer)
        buffer.length = start
        return buffer.update(keys, values)

    @torch.inference_mode()
    def head(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        """Next-token logits [n, vocabulary] from rows of final hidden states."""
        logits: torch.Tensor = self._model.get_output_embeddings()(hidden_rows)
        return logits

    @torch.inference_mode()
    def mark(self) -> Mark:
        """Remember this place. Costs nothing but for recurrent layers, whose state is copied."""
        mark = Mark(self._length, [RecurrentState.copied(layer) for layer in self._recurrent])
        self._marks.add(mark)
        return mark

    @torch.inference_mode()
    def rewind(self, mark: Mark) -> None:
        """Go back to a place that was marked. It stays marked."""
        if mark not in self._marks or not mark.valid:
            raise ValueError("the mark is another continuation's, or lies in what was taken back")
        self._is_sound = False
        for layer, state in zip(self._recurrent, mark.recurrent, strict=True):
            state.restore(layer)
        self._cut(mark.length)
        self._forget_marks(behind=mark.length)
        self._is_sound = True

    def _cut(self, length: int) -> None:
        for buffer in self._attention:
            buffer.length = length
        self._length = length

    def _forget_marks(self, *, behind: int) -> None:
        for mark in self._marks:
            mark.valid = mark.valid and mark.length <= behind


def _in_order(
    kinds: list[str], buffers: Sequence[CacheLayerMixin], states: Sequence[LinearAttentionLayer]
) -> list[CacheLayerMixin | LinearAttentionCacheLayerMixin]:
    """The cache's layers in the model's order."""
    next_buffer, next_state = iter(buffers), iter(states)
    return [next(next_buffer) if kind == "full_attention" else next(next_state) for kind in kinds]


def _reports(watch: Watch | None) -> AbstractContextManager[None]:
    return attention.one_forward() if watch is None else attention.one_forward(watch.attention_layers, watch.attention)


def _branch(segment: Segment, rows: slice, sequence: int = 0) -> attention.Branch:
    if segment.watch is None:
        return attention.Branch(rows, segment.start, sequence=sequence)
    return attention.Branch(rows, segment.start, segment.watch.attention_layers, segment.watch.attention, sequence)


def why_not_continuable(backbone: FrozenLM) -> str | None:
    """Return why a cached continuation of this model would not be exact, or None, judging by its settings."""
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
