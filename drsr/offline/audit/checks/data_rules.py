"""Every expectation of the data, judged again: `expectations/` holds the rules, Great Expectations judges them."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drsr.errors import MissingExtra
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, run_check

if TYPE_CHECKING:
    from collections.abc import Callable


def find_judge() -> Callable[..., Any]:
    """Return the judge of the data. Raise MissingExtra if it is not installed: an audit without it would not be one."""
    for package in ("great_expectations", "drsr.expectations"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "flows", needed_for="an audit, which judges every expectation of the data,")
    from drsr.expectations.judging import judge

    return judge


def check_data_rules(subject: Subject, told: Told) -> list[Verdict]:
    """Return one verdict per rule."""
    judge = find_judge()
    datasets = [dataset for dataset in SHIPPED if subject.has_policy or dataset != "policy"]
    try:
        judged: list[Verdict] = judge(subject.catalog, subject.artifacts, datasets, kept=subject.kept)
    except MissingExtra:
        raise
    except Exception:  # whatever stopped it concerns one dataset: the others are judged all the same
        judged = [verdict for dataset in datasets for verdict in _one(subject, dataset)]
    return judged + _too_few(datasets, judged)


SHIPPED = {"trajectories": 9, "states": 15, "labels": 22, "features": 14, "splits": 10, "calibration": 15, "policy": 9}
"""Rules of each dataset that this version ships. Suites, and the list of what they must hold, can be edited together;
this number is a third place, and a test compares it."""


def _one(subject: Subject, dataset: str) -> Sequence[Verdict]:
    """Judge one dataset as a separate check; if it could not be judged, the reason is its verdict."""
    judge = find_judge()
    name = f"{dataset}: could be judged"
    one = CHECK._replace(
        name=name, run=lambda asked, _: judge(asked.catalog, asked.artifacts, [dataset], kept=asked.kept)
    )
    return run_check(one, subject).verdicts


def _too_few(datasets: Sequence[str], judged: Sequence[Verdict]) -> list[Verdict]:
    """Datasets that were judged by fewer rules than this version ships."""
    counts = Counter(verdict.check.partition(": ")[0] for verdict in judged)
    broken = {verdict.check.partition(": ")[0] for verdict in judged if verdict.check.endswith(": could be judged")}
    few = [
        f"{dataset} was judged by {counts[dataset]} rules, this version ships {SHIPPED[dataset]}"
        for dataset in datasets
        if counts[dataset] < SHIPPED[dataset] and dataset not in broken
    ]
    hint = "install drsr again: somebody took rules out of it"
    return failed(CHECK, first_of(few), hint, few) if few else []


CHECK = Check(
    "expectations of the data",
    Severity.MAJOR,
    "Do the tables keep every rule that was written down for them?",
    "A suite of rules per dataset, written as code, judged by Great Expectations on the catalog as it is now. The "
    "set of rules that was evaluated is compared with the set that was written down: a rule that was dropped is a "
    "failure, and so are fewer rules than this version ships. A dataset that cannot be read does not hide the others.",
    check_data_rules,
)
