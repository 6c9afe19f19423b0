"""Every deletion set of a state is accounted for: measured, or excluded with a reason that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows

if TYPE_CHECKING:
    import pandas as pd


class ExpectEverySetToBeAccountedFor(OffendingRows):
    """A labelled state with n candidates has 2^n - 1 sets, 7 or 15, less its exclusions; an excluded one has none."""

    candidates: str
    labelled: str
    excluded: str
    outcome: str
    success_keys: ClassVar[tuple[str, ...]] = ("candidates", "labelled", "excluded", "outcome")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        sets = 2 ** frame[self.candidates].astype("int64") - 1
        is_labelled = frame[self.outcome] == "labelled"
        accounted = frame[self.labelled] + frame[self.excluded] == sets
        complete = is_labelled & accounted & (frame[self.labelled] > 0)
        without = ~is_labelled & (frame[self.labelled] == 0)
        return ~(complete | without)

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.candidates, self.labelled, self.excluded, self.outcome]
