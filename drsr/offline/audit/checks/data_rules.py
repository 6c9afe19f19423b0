"""Every expectation of the data, judged again: `expectations/` holds the rules, Great Expectations judges them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from drsr.errors import MissingExtra
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed

if TYPE_CHECKING:
    from collections.abc import Callable


def find_judge() -> Callable[..., Any]:
    """The judge of the data. MissingExtra where it is not installed: an audit without it would be none."""
    for package in ("great_expectations", "drsr.expectations"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "flows", needed_for="an audit, which judges every expectation of the data,")
    from drsr.expectations.judging import judge

    return judge


def check_data_rules(subject: Subject, told: Told) -> list[Verdict]:
    """One verdict per rule."""
    judge = find_judge()
    from drsr.expectations.judging import DATASETS

    datasets = [dataset for dataset in DATASETS if subject.has_policy or dataset != "policy"]
    judged: list[Verdict] = judge(subject.catalog, subject.artifacts, datasets, kept=subject.kept)
    return judged or failed(
        CHECK, "no expectation was judged", "python -m drsr.expectations shows what there is to judge"
    )


CHECK = Check(
    "expectations of the data",
    Severity.MAJOR,
    "Do the tables keep every rule that was written down for them?",
    "A suite of rules per dataset, written as code, judged by Great Expectations on the catalog as it is now. The "
    "set of rules that was evaluated is compared with the set that was written down: a rule that was dropped is a "
    "failure.",
    check_data_rules,
)
