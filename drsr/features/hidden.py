"""Hidden states reduced to spans while they pass, and their relations to the pre-action state (Eq. hidden_features).

No tensor of all layers and all tokens ever exists: each run of states is added to sums and then forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.errors import MisalignedSpan

if TYPE_CHECKING:
    import torch

SMALLEST_NORM = 1e-12
"""Every norm is raised to this before it divides or enters a logarithm: a zero vector has cosine 0, not 0 / 0."""

_SUM, _FIRST, _LAST = range(3)


class SpanStates:
    """For each of some ranges of positions: the sum of its hidden states, the first and the last, at every layer.

    And the states at one single position, the pre-action one. Positions from `start` on must be shown in order.
    """

    def __init__(self, ranges: Sequence[range], position: int, layers: int, *, start: int = 0) -> None:
        self.ranges = tuple(ranges)
        self.position = position
        self._starts = np.array([span.start for span in ranges], dtype=np.int64)
        self._stops = np.array([span.stop for span in ranges], dtype=np.int64)
        if len(ranges) and self._starts.min() < start:
            raise MisalignedSpan(f"a span starts at position {self._starts.min()}, before the first one shown, {start}")
        self._next = [start] * layers
        self._kept: torch.Tensor | None = None
        self._state: torch.Tensor | None = None
        self._run: _Run | None = None

    def add(self, layer: int, start: int, states: torch.Tensor) -> None:
        """Add the states [n, d] of the positions from `start` on at a layer (from 1). Positions after the single
        position are ignored."""
        if start != self._next[layer - 1]:
            raise MisalignedSpan(f"layer {layer} shows position {start} where {self._next[layer - 1]} was due")
        kept, state = self._allocated(states)
        states = states.to(kept)  # in float32, and beside the first layer's where the model is on several devices
        run = self._run_at(start, states)
        if len(run.ranges):
            kept[layer - 1, _SUM, run.ranges] += run.membership @ states
        if len(run.first_of):
            kept[layer - 1, _FIRST, run.first_of] = states[run.first_at]
        if len(run.last_of):
            kept[layer - 1, _LAST, run.last_of] = states[run.last_at]
        if start <= self.position < start + len(states):
            state[layer - 1] = states[self.position - start]
        self._next[layer - 1] += len(states)  # last: what failed on the way was not shown

    @property
    def is_complete(self) -> bool:
        """Return whether every layer was shown up to the single position, which no range exceeds."""
        return min(self._next) > self.position

    def state(self) -> torch.Tensor:
        """[layers, d]: the states at the single position."""
        assert self._state is not None
        return self._state

    def summary(self, span: range) -> SpanSummary:
        """Return what was kept of one range. A view on memory that all ranges share."""
        assert self._kept is not None
        number = self.ranges.index(span)
        return SpanSummary(*(self._kept[:, which, number] for which in (_SUM, _FIRST, _LAST)))

    def _allocated(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        if self._kept is None or self._state is None:
            layers, size = len(self._next), states.shape[1]
            self._kept = states.new_zeros((layers, 3, len(self.ranges), size), dtype=torch.float32)
            self._state = states.new_zeros((layers, size), dtype=torch.float32)
        return self._kept, self._state

    def _run_at(self, start: int, states: torch.Tensor) -> _Run:
        """Return which ranges a run of positions touches. Worked out for the first layer, the same for all others."""
        if self._run is None or self._run.positions != range(start, start + len(states)):
            self._run = _Run.of(self._starts, self._stops, start, states)
        return self._run


class SpanSummary(NamedTuple):
    """The summary of the hidden states of a range of positions: each [layers, d], float32."""

    total: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor

    def copied(self) -> SpanSummary:
        """Return a copy with its own memory."""
        return SpanSummary(*(tensor.clone() for tensor in self))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self)


class _Run(NamedTuple):
    """The overlap of one run of positions with the ranges."""

    positions: range
    ranges: torch.Tensor
    """Numbers of the ranges it touches."""
    membership: torch.Tensor
    """[touched ranges, positions]: 1 where the position is in the range. Summing is one matrix product."""
    first_of: torch.Tensor
    """Ranges whose first position is in the run, and its index there."""
    first_at: torch.Tensor
    last_of: torch.Tensor
    """Ranges whose last position is in the run, and its index there."""
    last_at: torch.Tensor

    @classmethod
    def of(cls, starts: NDArray[np.int64], stops: NDArray[np.int64], start: int, states: torch.Tensor) -> _Run:
        import torch

        stop = start + len(states)
        places = np.arange(start, stop)
        touched = np.flatnonzero((starts < stop) & (stops > start))
        inside = (starts[touched, None] <= places) & (places < stops[touched, None])
        first_of = np.flatnonzero((start <= starts) & (starts < stop))
        last_of = np.flatnonzero((start < stops) & (stops <= stop))
        first_at, last_at = starts[first_of] - start, stops[last_of] - 1 - start
        arrays = (touched, inside.astype(np.float32), first_of, first_at, last_of, last_at)
        return cls(range(start, stop), *(torch.as_tensor(array, device=states.device) for array in arrays))


class BlockStates(NamedTuple):
    """The hidden representation of the candidates and of the pre-action position, in float64."""

    mean: NDArray[np.float64]
    """[candidates, layers, d]"""
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    state: NDArray[np.float64]
    """[layers, d]"""


def hidden_relations(states: BlockStates) -> NDArray[np.float64]:
    """[candidates, layers, 5]: cosine, distance per sqrt(d), log norm ratio of the mean; cosines of first and last."""
    size = states.mean.shape[-1]
    distance = np.linalg.norm(states.mean - states.state, axis=-1) / np.sqrt(size)
    ratio = np.log(stable_norm(states.mean) / stable_norm(states.state))
    cosines = [(unit(part) * unit(states.state)).sum(axis=-1) for part in (states.mean, states.first, states.last)]
    return np.stack([cosines[0], distance, ratio, cosines[1], cosines[2]], axis=-1)


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each vector divided by its stabilised norm."""
    return vectors / stable_norm(vectors)[..., None]


def stable_norm(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the norm over the last axis, at least `SMALLEST_NORM`. The one place where zero norms are dealt with."""
    norms: NDArray[np.float64] = np.maximum(np.linalg.norm(vectors, axis=-1), SMALLEST_NORM)
    return norms
