"""Expectations of splits: as large as chance allows, and no evaluation task in what is learned from."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from scipy.stats import binomtest

from drsr.expectations.custom.offending_rows import OffendingRows
from drsr.offline.evaluate.eval40 import evaluation_task


class ExpectNoEvaluationTaskInSupervision(OffendingRows):
    """No split that anything is fitted on holds a run of an Eval40 task, by the name of task or run."""

    names: list[str]
    split: str
    supervision: list[str]
    success_keys: ClassVar[tuple[str, ...]] = ("names", "split", "supervision")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        named = frame[self.split].isna()  # without a split nobody knows whether it is supervision
        for column in self.names:
            named |= frame[column].map(_is_evaluated).astype("bool") & frame[self.split].isin(self.supervision)
        return named

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [*self.names, self.split]


def _is_evaluated(name: object) -> bool:
    return isinstance(name, str) and evaluation_task(name) is not None


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
