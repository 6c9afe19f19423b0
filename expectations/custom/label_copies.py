"""No feature column may be a label in disguise, and none passes because nothing was there to compare it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectNoCopyOfALabel(OffendingRows):
    """`agreement` <= `maximum` in every row; and where `minimum` rows or more are labelled, some label was compared."""

    agreement: str
    compared: str
    labelled_rows: str
    maximum: float
    minimum: int
    success_keys: ClassVar[tuple[str, ...]] = ("agreement", "compared", "labelled_rows", "maximum", "minimum")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        copied = ~(frame[self.agreement].astype("float64") <= self.maximum)  # NaN is not <= anything
        unseen = (frame[self.labelled_rows] >= self.minimum) & ~(frame[self.compared] > 0)
        return copied | unseen

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.agreement, "label", self.compared]


def compared(frame: pd.DataFrame) -> str:
    """Return what the columns were compared with, for the verdict."""
    if frame.empty:
        return ""
    labels, rows = int(frame["compared_labels"].max()), int(frame["compared_rows"].max())
    few = "" if labels else f": {int(frame['labelled_rows'].max()):,} are labelled, too few to have an order"
    return f"compared with {labels:,} label columns over {rows:,} rows{few}"
