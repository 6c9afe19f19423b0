"""Numbers that must keep to a limit or a list which stands in the same row, as each calibration has its own."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from drsr.expectations.custom.offending_rows import OffendingRows


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
