"""Rows of one key agree: a trajectory in one split, a state with one next output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectOneValuePerKey(OffendingRows):
    """All rows with the same key have the same value, and a value at all. Rows without a key are not looked at."""

    key: str
    value: str
    success_keys: ClassVar[tuple[str, ...]] = ("key", "value")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        keyed = frame[frame[self.key].notna()]
        # COUNT(DISTINCT ...) and nunique() both forget missing values: one that is missing is a value of its own here.
        different = keyed.groupby(self.key, observed=True)[self.value].nunique(dropna=False)
        missing = frame[self.key].notna() & frame[self.value].isna()
        return frame[self.key].isin(different.index[different > 1]) | missing

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.key, self.value]


def compared(key: str, why: str) -> Callable[[pd.DataFrame], str]:
    """For the verdict: how many rows had another one to be compared with, and why the others had none."""

    def says(frame: pd.DataFrame) -> str:
        several = int((frame[key].notna() & frame[key].duplicated(keep=False)).sum())
        return f"{several:,} of them compared with another: {why}"

    return says
