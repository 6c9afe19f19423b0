"""Features collected while labels are measured: the intact contexts run through the model anyway.

A watch never disturbs the measuring. One that cannot follow (memory ran short in the middle of a forward, say) gives
up, and its state waits for the featurize stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import is_out_of_memory
from drsr.decide.deletion_sets import deletion_sets
from drsr.errors import FeatureError
from drsr.features.vectors import CandidateFeatures, FeatureWatch
from drsr.features.view_layouts import Kind
from drsr.offline.featurize.records import FeatureExclusion, FeaturizedState, featurized
from drsr.offline.freeze.rows import StateRow

if TYPE_CHECKING:
    import torch


class CollectingWatch:
    """Watches the walk over one state's intact context, for the columns of one or more views."""

    def __init__(self, backbone: FrozenLM, row: StateRow, kinds: Collection[Kind] = (Kind.FULL,)) -> None:
        self._row = row
        self._result: FeatureExclusion | None = None
        self._watch: FeatureWatch | None = None
        self.attention_layers: frozenset[int] = frozenset()
        try:
            self._watch = FeatureWatch(backbone, row.frozen.state, kinds)
        except FeatureError as error:
            self._result = FeatureExclusion.of(error)
        else:
            self.attention_layers = self._watch.attention_layers

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        if self._watch is not None:
            with self._giving_up():
                self._watch.hidden(layer, start, states)

    def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        if self._watch is not None:
            with self._giving_up():
                self._watch.attention(layer, queries, keys)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Let the forward go on if a watch fails or runs out of memory."""
        try:
            yield
        except FeatureError:
            self._watch = None
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self._watch = None

    def collected(self, kind: Kind = Kind.FULL) -> FeaturizedState | None:
        """Return the outcome for the state in one of the views; None if the walk did not show all of it."""
        result = self._result or self._features(kind)
        if result is None:
            return None
        state = self._row.frozen.state
        sets = deletion_sets(state, len(state.candidates))
        return featurized(self._row.id, self._row.state_key, state, sets, result)

    def _features(self, kind: Kind) -> CandidateFeatures | FeatureExclusion | None:
        if self._watch is None or not self._watch.is_complete:
            return None
        try:
            return self._watch.features(kind)
        except FeatureError as error:
            return FeatureExclusion.of(error)
