"""Expectations of exclusions: each has a reason that the stage knows and that the numbers beside it confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows
from drsr.offline.featurize.exclusions import ExclusionReason

if TYPE_CHECKING:
    import pandas as pd

TOO_LONG, EMPTY = ExclusionReason.TARGET_TOO_LONG.value, ExclusionReason.EMPTY_TARGET.value


class ExpectOutcomeWithAKnownReason(OffendingRows):
    """A state is `done`, without a reason, or excluded, for one of the known ones."""

    outcome: str
    reason: str
    done: str
    reasons: list[str]
    success_keys: ClassVar[tuple[str, ...]] = ("outcome", "reason", "done", "reasons")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        is_done = (frame[self.outcome] == self.done) & frame[self.reason].isna()
        is_excluded = (frame[self.outcome] == "excluded") & frame[self.reason].isin(self.reasons)
        return ~(is_done | is_excluded)

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.outcome, self.reason]


class ExpectReasonToFitTheOutput(OffendingRows):
    """An output that is too long exceeds the labeler's cap; one that is empty has no tokens."""

    reason: str
    target_tokens: str
    target_cap: str
    success_keys: ClassVar[tuple[str, ...]] = ("reason", "target_tokens", "target_cap")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        reason, tokens = frame[self.reason], frame[self.target_tokens]
        too_long = (reason == TOO_LONG) & ~(tokens > frame[self.target_cap])
        return too_long | ((reason == EMPTY) & (tokens != 0))

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.reason, self.target_tokens, self.target_cap]


def left_out(frame: pd.DataFrame) -> str:
    """Return how many states were left out for which reason, for the verdict."""
    counts = frame["reason"].dropna().value_counts().sort_index()
    said = ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
    return f"left out: {said}" if said else "none left out"
