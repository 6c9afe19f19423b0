"""The paper's own end-to-end tables as a section of the report: what its authors report, marked so in every title."""

from __future__ import annotations

from drsr.offline.bench.analyses.analysis import Analysis, Section
from drsr.offline.bench.report.paper_tables import (
    DOES_NOT_ADD_UP,
    SOURCE,
    eval40,
    eval40_ablations,
    eval40_change,
    eval40_totals,
    full260,
)

_NOT_OURS = (
    "None of this was measured here: tasks were run with the paper's model and agent. Tokens are of all model calls."
)


def paper_section() -> Section:
    return Section(f"End-to-end results, {SOURCE}", [_eval40(), _totals(), _ablations(), _full260()], {})


def _eval40() -> Analysis:
    return Analysis(
        "paper_eval40",
        f"Forty tasks: reward and tokens, {SOURCE}",
        _NOT_OURS,
        ("method", "domain", "reward", "million tokens per task"),
        tuple(tuple(row) for row in eval40()),
        b"",
    )


def _totals() -> Analysis:
    return Analysis(
        "paper_eval40_totals",
        f"Forty tasks: tokens of every method, {SOURCE}",
        f"{_NOT_OURS} The change is against the baseline's total.",
        ("method", "million tokens, all forty tasks", "million tokens per task", "change, %"),
        tuple(
            (row.method, row.total_millions, row.per_task_millions, round(change, 2))
            for row, change in ((row, eval40_change(row.method)) for row in eval40_totals())
        ),
        b"",
    )


def _ablations() -> Analysis:
    return Analysis(
        "paper_ablations",
        f"Forty tasks: DRSR without a part, and what its tokens are made of, {SOURCE}",
        f"{_NOT_OURS} Per task; tokens read from a cache and written to one are parts of the input. Overall is the "
        "mean of the domains.",
        (
            *("variant", "domain", "reward", "million tokens", "thousand removed directly", "million input"),
            *("thousand output", "million cache read", "million cache creation"),
        ),
        tuple(tuple(row) for row in eval40_ablations()),
        b"",
    )


def _full260() -> Analysis:
    return Analysis(
        "paper_full260",
        f"All 260 tasks, {SOURCE}",
        _with_doubts("full260"),
        (
            "method",
            "domain",
            "tasks",
            "reward",
            "million tokens per task",
            "change, %",
            "thousand tokens removed directly",
        ),
        tuple(tuple(row) for row in full260()),
        b"",
    )


def _with_doubts(table: str) -> str:
    """Return the text with the numbers of a table that do not follow from its own rows."""
    odd = [f"{name.split('/')[1]}: {why}" for name, why in DOES_NOT_ADD_UP.items() if name.startswith(f"{table}/")]
    return _NOT_OURS + (f" What does not add up in it: {'; '.join(odd)}." if odd else "")
