"""Every comparator, in the order of the report's table, and those that cannot run here, with the reason."""

from __future__ import annotations

from typing import NamedTuple

from drsr.contracts import Tokenizer
from drsr.offline.evaluation.comparators.baseline import Baseline
from drsr.offline.evaluation.comparators.contract import Comparator
from drsr.offline.evaluation.comparators.observation_masking import ObservationMasking
from drsr.offline.evaluation.comparators.periodic_summary import PeriodicSummary
from drsr.offline.evaluation.comparators.sliding_window import SlidingWindow
from drsr.offline.evaluation.comparators.structural_pruning import StructuralPruning
from drsr.offline.evaluation.comparators.token_counts import SOURCE_WINDOW, TokenCounts


class NotAvailable(NamedTuple):
    """A row of the table that cannot run here."""

    name: str
    title: str
    reason: str


def comparators(tokenizer: Tokenizer, *, window: int = SOURCE_WINDOW) -> dict[str, Comparator]:
    """All that can run here. `tokenizer` counts for budgets; `window` is the acting model's, in tokens."""
    _ = TokenCounts(tokenizer, window)
    found: list[Comparator] = [
        Baseline(),
        *(SlidingWindow(steps) for steps in (5, 10, 20)),
        *(PeriodicSummary(every) for every in (3, 5)),
        StructuralPruning(),
        ObservationMasking(),
    ]
    return {comparator.name: comparator for comparator in found}


def not_available() -> dict[str, NotAvailable]:
    """Rows without a result, with the reason for each."""
    rows = [
        NotAvailable(
            "openhands_condenser",
            "OpenHands condenser",
            "its package needs Python 3.12 or newer and cannot be installed beside Python 3.11",
        ),
    ]
    return {row.name: row for row in rows}
