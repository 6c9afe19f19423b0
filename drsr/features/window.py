"""Attention of the observation window: the last positions of the view, up to and with the pre-action one.

Their queries are kept while they pass, in however many pieces; once the last one has arrived, so have all keys, and the
rows of the attention matrix follow. The cost is that of 64 rows in a few layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drsr.errors import MisalignedSpan
from drsr.features.spans import Spans
from drsr.features.view_layouts import WINDOW_POSITIONS

if TYPE_CHECKING:
    import torch


class WindowQueries:
    """The queries of one layer at the window's positions."""

    def __init__(self, position: int) -> None:
        """`position` is the last one."""
        self._first = max(0, position + 1 - WINDOW_POSITIONS)
        self._stop = position + 1
        self._pieces: list[tuple[int, torch.Tensor]] = []

    def add(self, start: int, queries: torch.Tensor) -> None:
        """Add the queries [heads, n, dim] of the positions from `start`. Positions shown again replace the earlier
        ones."""
        self._pieces = [(begin, piece) for begin, piece in self._pieces if begin < start]
        from_row = max(0, self._first - start)
        if from_row < queries.shape[1]:
            self._pieces.append((start + from_row, queries[:, from_row:].clone()))

    def gathered(self) -> torch.Tensor | None:
        """Return the queries as [heads, window, dim]; None if a position was not seen."""
        import torch

        due = self._first
        for begin, piece in self._pieces:
            if begin != due:
                return None
            due += piece.shape[1]
        return torch.cat([piece for _, piece in self._pieces], dim=1) if due == self._stop else None


def window_statistics(
    queries: torch.Tensor, keys: torch.Tensor, scale: float | None, candidates: Sequence[Spans]
) -> torch.Tensor:
    """[candidates, 4]: mass, density, largest weight and peak mass, in float32.

    `queries` are [heads, window, dim] of the last positions, `keys` [kv_heads, positions, dim].
    """
    import torch

    weights = window_weights(queries, keys, scale)
    together = weights.mean(dim=0)
    statistics = []
    for spans in candidates:
        if spans[-1].stop > weights.shape[1]:
            raise MisalignedSpan(f"a span ends at position {spans[-1].stop}, the keys at {weights.shape[1]}")
        inside = torch.cat([together[span.start : span.stop] for span in spans])
        by_position = sum(weights[:, span.start : span.stop].sum(dim=1) for span in spans)
        assert isinstance(by_position, torch.Tensor)
        mass = inside.sum()
        statistics.append(torch.stack([mass, mass / len(inside), inside.max(), by_position.max()]))
    return torch.stack(statistics)


def window_weights(queries: torch.Tensor, keys: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Return attention weights as [window, positions], the mean over the heads, in float32; zero for every later
    position."""
    import torch

    heads, window, dim = queries.shape
    length = keys.shape[1]
    scale = dim**-0.5 if scale is None else scale
    future = torch.ones(window, window, dtype=torch.bool, device=keys.device).triu_(1)
    total = torch.zeros(window, length, dtype=torch.float32, device=keys.device)
    # Group by group: the weights of all heads at once would be the largest tensor of a decision.
    groups = (queries.float() * scale).view(keys.shape[0], heads // keys.shape[0], window, dim)
    for group, keys_of_group in zip(groups, keys, strict=True):
        scores = group @ keys_of_group.float().T
        scores[:, :, length - window :].masked_fill_(future, float("-inf"))
        total += scores.softmax(dim=-1).sum(dim=0)
    return total / heads
