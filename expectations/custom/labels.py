"""Expectations of labels and of features beside them: sets, harms, exclusions, and no copy of a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drsr.expectations.custom.offending_rows import OffendingRows
from drsr.offline.featurize.exclusions import ExclusionReason

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


ROUNDING = 1e-9
"""Nats per token; far below what any label is measured to."""


class ExpectHarmAgainstIntactHistory(OffendingRows):
    """H(A) = NLL without A - NLL with everything. So H of the empty set is 0, the zero point that all sets share."""

    harm: str
    deleted_nll: str
    intact_nll: str
    mask: str
    success_keys: ClassVar[tuple[str, ...]] = ("harm", "deleted_nll", "intact_nll", "mask")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        difference = (frame[self.deleted_nll] - frame[self.intact_nll] - frame[self.harm]).abs()
        harm_of_nothing = (frame[self.mask] == 0) & (frame[self.harm] != 0.0)
        return ~(difference <= ROUNDING) | harm_of_nothing  # NaN is not <= anything

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.harm, self.deleted_nll, self.intact_nll]


class ExpectUnsafeToFollowFromHarm(OffendingRows):
    """unsafe = 1[H > harm tolerance]."""

    harm: str
    unsafe: str
    tolerance: float
    success_keys: ClassVar[tuple[str, ...]] = ("harm", "unsafe", "tolerance")

    def offending(self, frame: pd.DataFrame) -> pd.Series:
        said = frame[self.unsafe]
        return said.isna() | (said.astype("bool") != (frame[self.harm] > self.tolerance))

    def looks_at(self, frame: pd.DataFrame) -> list[str]:
        return [self.harm, self.unsafe]


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
    """An output recorded as too long exceeds the labeler's cap; an empty output has no tokens."""

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


def labels_compared(frame: pd.DataFrame) -> str:
    """Return what the columns were compared with, for the verdict."""
    if frame.empty:
        return ""
    labels, rows = int(frame["compared_labels"].max()), int(frame["compared_rows"].max())
    few = "" if labels else f": {int(frame['labelled_rows'].max()):,} are labelled, too few to have an order"
    return f"compared with {labels:,} label columns over {rows:,} rows{few}"
