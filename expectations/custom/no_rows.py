"""A frame of things that must not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectNoRows(OffendingRows):
    """The frame is empty; every row of it is an offender, and is named."""

    success_keys: ClassVar[tuple[str, ...]] = ()

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        return frame.index.to_series().notna()

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return list(frame.columns)
