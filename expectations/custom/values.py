"""Expectations of values: finite, within their row's limits, one per key, or no rows at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pandas as pd

from drsr.expectations.custom.offending_rows import OffendingRows


class ExpectColumnValuesToBeFinite(OffendingRows):
    """Every value is a number: not missing, not NaN, not infinite."""

    column: str
    success_keys: ClassVar[tuple[str, ...]] = ("column",)

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        numbers = frame[self.column].astype("float64")
        return ~np.isfinite(numbers)

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.column]


class ExpectWithinOwnLimit(OffendingRows):
    """`column` <= `limit` in every row. A missing value breaks it, too, but in rows where `unless` is true."""

    column: str
    limit: str
    unless: str
    success_keys: ClassVar[tuple[str, ...]] = ("column", "limit", "unless")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        within = frame[self.column].astype("float64") <= frame[self.limit].astype("float64")
        return ~within & ~frame[self.unless].astype("bool")

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.column, self.limit]


class ExpectAmongOwnChoices(OffendingRows):
    """`column` is one of the list in `choices` in every row but those where `unless` is true."""

    column: str
    choices: str
    unless: str
    success_keys: ClassVar[tuple[str, ...]] = ("column", "choices", "unless")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        known = [value in choices for value, choices in zip(frame[self.column], frame[self.choices], strict=True)]
        return ~(frame[self.unless].astype("bool") | pd.Series(known, index=frame.index, dtype="bool"))

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.column, self.choices]


class ExpectNoRows(OffendingRows):
    """The frame is empty; every row of it is an offender, and is named."""

    success_keys: ClassVar[tuple[str, ...]] = ()

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        return frame.index.to_series().notna()

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return list(frame.columns)


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
