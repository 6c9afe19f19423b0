"""Matrices of a language model held in another number format than the rest of it.

int8    whole numbers of 8 bits: quicker features, other numbers, another identity
mixed   16 bits, between activations that stay in 32: for measuring harm on a GPU
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Rounding = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class Latest(threading.local):
    """The input that this thread rounded last: the projections of one layer read the same, which is rounded once."""

    def __init__(self, rounding: Rounding) -> None:
        self._rounding = rounding
        self._given: torch.Tensor | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Latest:
        return Latest(self._rounding)

    def of(self, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return it rounded, row by row, and the step of each row."""
        if given is not self._given:
            self._found = self._rounding(given)
            self._given = given
        return self._found
