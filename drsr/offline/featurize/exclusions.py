"""Say why something could not be computed for a state: an expected outcome, recorded with its reason."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ExclusionReason(StrEnum):
    """The reason for a missing NLL."""

    EMPTY_TARGET = "empty_target"
    TARGET_TOO_LONG = "target_too_long"
    CONTEXT_TOO_LONG = "context_too_long"
    NON_FINITE = "non_finite"
    OUT_OF_MEMORY = "out_of_memory"


class Exclusion(NamedTuple):
    """Something that could not be measured, with the reason. An expected outcome, not an error."""

    reason: ExclusionReason
    detail: str
