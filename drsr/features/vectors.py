"""One forward over the view, one feature row per candidate (paper, Eq. candidate_feature).

    features = candidate_features(backbone, state)      # a forward of its own

    watch = FeatureWatch(backbone, state)               # or along with a forward that is made anyway
    continuation.extend(tokens_of_the_view, watch=watch)
    features = watch.features()

One watch can be asked for the columns of several views (`kinds`): they come out of the same forward. All of this gives
the columns in the order of the view's layout, or a named error: a value that cannot be had is never made up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.backbone.memory import DEFAULT_MEGABYTES
from drsr.decide.candidates import DecisionState
from drsr.errors import FeatureError, MisalignedSpan, NonFiniteFeature
from drsr.features.attention import head_statistics, with_summaries
from drsr.features.geometry import attention_scales, geometry_of
from drsr.features.hidden import BlockStates, SpanStates, SpanSummary, hidden_relations, unit
from drsr.features.layout import Layout, ViewLayout
from drsr.features.projection import projection_matrix
from drsr.features.spans import candidate_spans, prefix_hash
from drsr.features.structural import structural_features
from drsr.features.view_layouts import Kind, layout_from, layout_of
from drsr.features.window import WindowQueries, window_statistics

if TYPE_CHECKING:
    import torch

    from drsr.backbone.continuation import Continuation
    from drsr.backbone.frozen_lm import FrozenLM


class CandidateFeatures(NamedTuple):
    """The features of one state."""

    matrix: NDArray[np.float32]
    """One row per candidate, in their order; one column per name of the layout, in its order. All finite."""
    layout_hash: str
    """Hash of the layout that names the columns."""
    prefix_hash: str
    """From exactly which tokens they were computed."""


def candidate_features(
    backbone: FrozenLM,
    state: DecisionState,
    continuation: Continuation | None = None,
    *,
    kind: Kind = Kind.FULL,
    memory_mb: int = DEFAULT_MEGABYTES,
) -> CandidateFeatures:
    """Return the features from one forward over the view's tokens, in at most `memory_mb` above the model.

    They run in `continuation`, which must be empty and large enough; afterwards it is at the pre-action position and
    can be extended further.
    """
    watch = FeatureWatch(backbone, state, [kind])
    token_ids = state.view.token_ids(state.rendering.token_ids)
    if continuation is None:
        from drsr.backbone.continuation import Continuation

        continuation = Continuation.within(backbone, len(token_ids), memory_mb)
    elif continuation.length:
        raise FeatureError(
            f"the continuation already holds {continuation.length} tokens",
            hint="hand in an empty one; a Session is what goes on from an earlier decision",
        )
    continuation.extend_as_memory_allows(token_ids, watch)
    return watch.features(kind)


class FeatureWatch:
    """Collects the features of one state while its view runs through a `Continuation`.

    The view may come in several extends, one after another from its first token; the last of them must end at the
    pre-action position. What runs after that position is ignored.
    """

    attention_layers: frozenset[int]

    def __init__(
        self,
        backbone: FrozenLM,
        state: DecisionState,
        kinds: Collection[Kind] = (Kind.FULL,),
        *,
        start: int = 0,
        known: Mapping[range, SpanSummary] | None = None,
        extra: Iterable[range] = (),
    ) -> None:
        """A session continues at `start`; `known` are the spans that it has seen before, `extra` those it wants
        kept."""
        self.layout = layout_of(geometry_of(backbone))
        config = backbone.model.config
        self._layouts = {kind: layout_from(kind, config, backbone.name) for kind in kinds}
        self.attention_layers = frozenset(self.layout.attention_layers)
        self._spans = candidate_spans(state)
        self._known = known or {}
        wanted = {span for spans in self._spans for span in spans}.union(extra) - self._known.keys()
        self._position = len(state.view.token_ids(state.rendering.token_ids)) - 1
        self._whole = range(self._position + 1)
        if Kind.SEMANTIC in kinds:
            wanted.add(self._whole)
        self._states = SpanStates(
            sorted(wanted, key=lambda span: span.start), self._position, self.layout.geometry.layers, start=start
        )
        self._scales = attention_scales(backbone)
        self._attention: dict[int, torch.Tensor] = {}
        has_window = not {Kind.WINDOW, Kind.WIDE}.isdisjoint(kinds)
        self._queries = {layer: WindowQueries(self._position) for layer in self.attention_layers if has_window}
        self._window: dict[int, torch.Tensor] = {}
        self._structural = structural_features(state)
        self._prefix_hash = prefix_hash(state)
        self._names = [candidate.block.name for candidate in state.candidates]

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        """Called by the continuation: hidden states of some positions."""
        self._states.add(layer, start, states)

    def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        """Record the queries of some positions, and all keys up to the last of them. Called by the continuation."""
        stop = keys.shape[1]
        if stop > self._position + 1:
            return
        if layer in self._queries:
            self._queries[layer].add(stop - queries.shape[1], queries)
        if stop <= self._position:
            return
        if queries.shape[0] != self.layout.geometry.heads:
            raise FeatureError(f"layer {layer} has {queries.shape[0]} heads, the layout {self.layout.geometry.heads}")
        scale = self._scales.get(layer)
        self._attention[layer] = head_statistics(queries[:, -1], keys, scale, self._spans)
        if layer in self._queries and (window := self._queries[layer].gathered()) is not None:
            self._window[layer] = window_statistics(window, keys, scale, self._spans)

    def summaries(self) -> dict[range, SpanSummary]:
        """Return what was kept of every span seen for the first time. They share memory: copy what is to stay."""
        return {span: self._states.summary(span) for span in self._states.ranges}

    def features(self, kind: Kind = Kind.FULL) -> CandidateFeatures:
        """Return the features of one of the views that were asked for, once the whole view of the request was
        watched."""
        return CandidateFeatures(self.matrix(kind), self._layouts[kind].hash, self._prefix_hash)

    @property
    def is_complete(self) -> bool:
        """Return whether the whole view has been watched, including the pre-action position."""
        attended = self._attention.keys() == self.attention_layers and self._window.keys() == self._queries.keys()
        return self._states.is_complete and attended

    def matrix(self, kind: Kind = Kind.FULL) -> NDArray[np.float32]:
        """[candidates, columns] in the order of the view's layout."""
        if not self.is_complete:
            raise MisalignedSpan(
                f"what was watched does not end at the pre-action position {self._position}",
                hint="extend over all tokens of the view; the last extend must end with the view's last token",
            )
        columns: dict[Kind, Callable[[], NDArray[np.float64]]] = {
            Kind.FULL: self._full,
            Kind.WINDOW: self._window_columns,
            Kind.WIDE: lambda: np.concatenate([self._full(), self._window_columns()], axis=1),
            Kind.SEMANTIC: self._semantic,
        }
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused by name
            matrix = columns[kind]().astype(np.float32)
        self._refuse_non_finite(self._layouts[kind], matrix)
        return matrix

    def _full(self) -> NDArray[np.float64]:
        rows, states = len(self._names), self._block_states()
        groups = (
            self._structural,
            self._attention_columns(),
            hidden_relations(states).reshape(rows, -1),
            self._projected(states).reshape(rows, -1),
        )
        return np.concatenate(groups, axis=1)

    def _window_columns(self) -> NDArray[np.float64]:
        by_layer = [_array(self._window[layer]) for layer in self.layout.attention_layers]
        return np.concatenate(by_layer, axis=1)

    def _semantic(self) -> NDArray[np.float64]:
        """Return, by semantic layer, the direction of the Block, of the pre-action state and of the mean over the whole
        view, rounded to 16 bits: that leaves a cosine its first three decimals."""
        states, whole = self._block_states(), _array(self._states.summary(self._whole).total)
        parts = []
        for layer in self.layout.semantic_layers:
            block = unit(states.mean[:, layer - 1])
            shared = (unit(states.state[layer - 1]), unit(whole[layer - 1]))
            parts += [block, *(np.broadcast_to(one, block.shape) for one in shared)]
        return np.concatenate(parts, axis=1).astype(np.float16).astype(np.float64)

    def _block_states(self) -> BlockStates:
        summaries = {**self._known, **self.summaries()}
        totals = [sum(_array(summaries[span].total) for span in spans) for spans in self._spans]
        counts = [sum(map(len, spans)) for spans in self._spans]
        return BlockStates(
            mean=np.stack([total / count for total, count in zip(totals, counts, strict=True)]),
            first=np.stack([_array(summaries[spans[0]].first) for spans in self._spans]),
            last=np.stack([_array(summaries[spans[-1]].last) for spans in self._spans]),
            state=_array(self._states.state()),
        )

    def _attention_columns(self) -> NDArray[np.float64]:
        by_layer = [_array(self._attention[layer]) for layer in self.layout.attention_layers]
        return with_summaries(np.stack(by_layer, axis=1)).reshape(len(self._names), -1)

    def _projected(self, states: BlockStates) -> NDArray[np.float64]:
        """[candidates, semantic layers, 128]: the projected direction of the Block, then of the pre-action state."""
        pairs = []
        for layer in self.layout.semantic_layers:
            matrix = projection_matrix(layer, states.state.shape[-1]).astype(np.float64)
            block = unit(states.mean[:, layer - 1]) @ matrix
            state = unit(states.state[layer - 1]) @ matrix
            pairs.append(np.concatenate([block, np.broadcast_to(state, block.shape)], axis=1))
        return np.stack(pairs, axis=1)

    def _refuse_non_finite(self, layout: Layout | ViewLayout, matrix: NDArray[np.float32]) -> None:
        wrong = np.argwhere(~np.isfinite(matrix))
        if len(wrong):
            row, column = wrong[0]
            raise NonFiniteFeature(
                f"{layout.names[column]} is {matrix[row, column]}, as are {len(wrong) - 1} more values",
                where=f"Block {self._names[row]}",
                hint="a model in half precision can overflow: load it with dtype float32 or bfloat16",
            )


def _array(tensor: torch.Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = tensor.cpu().double().numpy()
    return array
