"""Every expectation of the data, judged again: `expectations/` holds the rules, Great Expectations judges them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from drsr.errors import MissingExtra
from drsr.offline.audit.subject import AuditSubject
from drsr.offline.audit.verdicts import AuditVerdict, Check, Severity, Told, failed

if TYPE_CHECKING:
    from collections.abc import Callable

_CRITICAL = frozenset({"splits", "labels", "features", "calibration"})
"""Datasets whose rules are about leaks and about numbers; those of the others are about order and completeness, but
for these:"""
CRITICAL_RULES = frozenset(
    {
        ("trajectories", "no near-duplicates across splits"),
        ("policy", "the policy's numbers are those of its calibration"),
        ("policy", "a policy is made of train and validation only"),
        ("policy", "a policy is made of no evaluation task"),
    }
)


def find_judge() -> Callable[..., Any]:
    """The judge of the data. MissingExtra where it is not installed: an audit without it would be none."""
    for package in ("great_expectations", "drsr.expectations"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "flows", needed_for="an audit, which judges every expectation of the data,")
    from drsr.expectations.judging import judge

    return judge


def check_data_rules(subject: AuditSubject, told: Told) -> list[AuditVerdict]:
    """One verdict per rule."""
    judge = find_judge()
    from drsr.expectations.judging import DATASETS

    datasets = [dataset for dataset in DATASETS if subject.has_policy or dataset != "policy"]
    judged = judge(subject.catalog, subject.artifacts, datasets)
    if not judged:
        return failed(CHECK, "no expectation was judged", "python -m drsr.expectations shows what there is to judge")
    return [
        AuditVerdict(
            f"{dataset}: {rule}",
            Severity.CRITICAL if dataset in _CRITICAL or (dataset, rule) in CRITICAL_RULES else Severity.MAJOR,
            is_kept,
            detail,
            "" if is_kept else f"python -m drsr.expectations {dataset} shows the rule and the first rows that break it",
        )
        for dataset, rule, is_kept, detail in judged
    ]


CHECK = Check(
    "expectations of the data",
    Severity.MAJOR,
    "Do the tables keep every rule that was written down for them?",
    "A suite of rules per dataset, written as code, judged by Great Expectations on the catalog as it is now. The "
    "set of rules that was evaluated is compared with the set that was written down: a rule that was dropped is a "
    "failure.",
    check_data_rules,
)
