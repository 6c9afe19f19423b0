"""Expectations of labels: harm is measured against the intact history, unsafe is what exceeds the tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-9
"""Nats per token; far below what any label is measured to."""


class ExpectHarmAgainstIntactHistory(OffendingRows):
    """H(A) = NLL without A - NLL with everything. So H of the empty set is 0, the zero point that all sets share."""

    harm: str
    deleted_nll: str
    intact_nll: str
    mask: str
    success_keys: ClassVar[tuple[str, ...]] = ("harm", "deleted_nll", "intact_nll", "mask")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        difference = (frame[self.deleted_nll] - frame[self.intact_nll] - frame[self.harm]).abs()
        harm_of_nothing = (frame[self.mask] == 0) & (frame[self.harm] != 0.0)
        return ~(difference <= ROUNDING) | harm_of_nothing  # NaN is not <= anything

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.harm, self.deleted_nll, self.intact_nll]


class ExpectUnsafeToFollowFromHarm(OffendingRows):
    """unsafe = 1[H > harm tolerance]."""

    harm: str
    unsafe: str
    tolerance: float
    success_keys: ClassVar[tuple[str, ...]] = ("harm", "unsafe", "tolerance")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        said = frame[self.unsafe]
        return said.isna() | (said.astype("bool") != (frame[self.harm] > self.tolerance))

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.harm, self.unsafe]
