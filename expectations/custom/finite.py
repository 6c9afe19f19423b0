"""A column of finite numbers. The built-in expectations take NaN for "no value" and pass over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectColumnValuesToBeFinite(OffendingRows):
    """Every value is a number: not missing, not NaN, not infinite."""

    column: str
    success_keys: ClassVar[tuple[str, ...]] = ("column",)

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        numbers = frame[self.column].astype("float64")
        return ~np.isfinite(numbers)

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.column]
