"""Splits as large as they should be, as far as chance allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scipy.stats import binomtest

from expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectSplitSharesWithinTolerance(OffendingRows):
    """As many groups in each split as a stable hash would put there.

    Groups fall independently, so the number in a split is binomial: the tolerance is what happens by chance less often
    than `probability`. For 10 groups that is anything but absurd, for 100,000 groups less than half a percent.
    """

    column: str
    shares: dict[str, float]
    probability: float
    success_keys: ClassVar[tuple[str, ...]] = ("column", "shares", "probability")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        counts = frame[self.column].value_counts()
        wrong = [
            split
            for split, share in self.shares.items()
            if len(frame) > 0 and binomtest(int(counts.get(split, 0)), len(frame), share).pvalue < self.probability
        ]
        # A split that is far too small may have no row of its own to name: then all rows are in the wrong place.
        empty = any(split not in counts for split in wrong)
        return (frame[self.column].isin(wrong) | ~frame[self.column].isin(list(self.shares))) | empty

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.column]
