"""The paper's own end-to-end tables as a section of the report: what its authors report, marked so in every title."""

from __future__ import annotations

from drsr.offline.evaluation.analyses.analysis import Analysis, Section
from drsr.offline.evaluation.paper_tables import SOURCE, eval40, eval40_ablations, full260

_NOT_OURS = (
    "Nothing of this was measured here: tasks were run with the paper's model and agent. Tokens are of all model calls."
)


def paper_section() -> Section:
    return Section(f"End-to-end results, {SOURCE}", [_eval40(), _ablations(), _full260()], {})


def _eval40() -> Analysis:
    return Analysis(
        "paper_eval40",
        f"Forty tasks: reward and tokens, {SOURCE}",
        _NOT_OURS,
        ("method", "domain", "reward", "million tokens per task"),
        tuple(tuple(row) for row in eval40()),
        b"",
    )


def _ablations() -> Analysis:
    return Analysis(
        "paper_ablations",
        f"Forty tasks: DRSR without a part, {SOURCE}",
        _NOT_OURS,
        ("variant", "domain", "reward", "million tokens per task", "thousand tokens removed directly"),
        tuple(
            (row.variant, row.domain, row.reward, row.tokens_millions, row.direct_thousands)
            for row in eval40_ablations()
        ),
        b"",
    )


def _full260() -> Analysis:
    return Analysis(
        "paper_full260",
        f"All 260 tasks, {SOURCE}",
        _NOT_OURS,
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
