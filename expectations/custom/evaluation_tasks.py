"""The expectation that no evaluation task was learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows
from drsr.offline.evaluate.eval40 import evaluation_task

if TYPE_CHECKING:
    import pandas as pd


class ExpectNoEvaluationTaskInSupervision(OffendingRows):
    """No run of an Eval40 task, by the name of task or run, is in a split that anything is fitted on."""

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
