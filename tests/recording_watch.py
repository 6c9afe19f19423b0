"""A watch over a forward pass that keeps copies of everything it is shown."""

from __future__ import annotations

from collections.abc import Iterator

import torch


class RecordingWatch:
    def __init__(self, *attention_layers: int) -> None:
        self.attention_layers = frozenset(attention_layers)
        self.states: dict[int, list[tuple[int, torch.Tensor]]] = {}
        self.rows: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
        self.states.setdefault(layer, []).append((start, states.clone()))

    def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
        self.rows.setdefault(layer, []).append((queries.clone(), keys.clone()))

    def runs(self, layer: int) -> Iterator[tuple[int, int]]:
        """Where each piece of a layer's states began and ended."""
        return ((start, start + len(states)) for start, states in self.states[layer])
