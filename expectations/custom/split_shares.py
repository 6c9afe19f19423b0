"""Splits as large as they should be, as far as chance allows."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from scipy.stats import binomtest

from drsr.expectations.custom.offending_rows import OffendingRows


class ExpectSplitSharesWithinTolerance(OffendingRows):
    """In each split as many of the groups as a stable hash would put there; a row per split.

    Groups fall independently, so the number in a split is binomial: the tolerance is what happens by chance less often
    than `probability`. For ten groups that is nearly anything, for 100,000 of them less than one percent.
    """

    count: str
    total: str
    share: str
    probability: float
    success_keys: ClassVar[tuple[str, ...]] = ("count", "total", "share", "probability")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        rows = zip(frame[self.count], frame[self.total], frame[self.share], strict=True)
        wrong = [
            binomtest(int(count), int(total), float(share)).pvalue < self.probability if total else False
            for count, total, share in rows
        ]
        return pd.Series(wrong, index=frame.index, dtype="bool")

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.count, self.total, self.share]
