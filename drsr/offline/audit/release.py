"""The demands of an auditor before a policy is published: the data keeps its rules, and an audit passes.

Both look before anything is written: the rules at the catalog as it is, the audit at the wheel's own bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from drsr.errors import MissingExtra
from drsr.offline.audit.checks import (
    calibration,
    chain,
    future,
    judged_scorer,
    labels,
    normaliser,
    split_reads,
    splits,
    weight_files,
    withdrawals,
)
from drsr.offline.audit.checks.data_rules import find_judge
from drsr.offline.audit.running import run_audit
from drsr.offline.audit.subject import AuditSubject, Candidate, Order
from drsr.offline.audit.verdicts import Check
from drsr.offline.publish import gates
from drsr.offline.publish.candidate import Built
from drsr.offline.publish.gates import Subject, Verdict
from drsr.offline.publish.stage import PublishOrder

QUICK: tuple[Check, ...] = (
    weight_files.CHECK,
    chain.CHECK,
    splits.CHECK,
    split_reads.CHECK,
    withdrawals.CHECK,
    normaliser.CHECK,
    judged_scorer.CHECK,
    calibration.CHECK,
)
"""What needs no forward of a language model. The golden requests and the expectations have gates of their own."""
MEASURED_AGAIN: tuple[Check, ...] = (future.CHECK, labels.CHECK)
"""What runs the language model again over a sample of states."""


def rules_kept(subject: Subject) -> Verdict:
    """The data keeps every rule that was written down for it. Fails where nobody can judge that."""
    try:
        return _judged(subject)
    except MissingExtra as missing:
        advice = f"{missing.hint}; --without-expectations publishes all the same, and that is recorded"
        return Verdict(False, f"not judged: {missing.what} ({advice})")


def rules_kept_if_judged(subject: Subject) -> Verdict:
    """The same where somebody said that a machine without Great Expectations may publish. A broken rule still fails."""
    try:
        return _judged(subject)
    except MissingExtra as missing:
        return Verdict(True, f"NOT JUDGED, as --without-expectations allows: {missing.what}")


def _judged(subject: Subject) -> Verdict:
    judge = find_judge()
    from drsr.expectations.judging import DATASETS

    datasets = [dataset for dataset in DATASETS if dataset != "policy"]  # that one is of what was published before
    judged = judge(subject.catalog, subject.artifacts, datasets)
    broken = [f"{dataset}: {rule}: {detail}" for dataset, rule, is_kept, detail in judged if not is_kept]
    if broken:
        return Verdict(False, _first(broken))
    return Verdict(bool(judged), f"{len(judged)} rules of {len(datasets)} datasets are kept")


def gated_order(
    index: Path, *, audit_sample: int | None = 0, data_rules: gates.Check = rules_kept, **more: Any
) -> PublishOrder:
    """Return an order to publish whose gates are the rules of the data and an audit of the wheel.

    The audit measures `audit_sample` states again with the language model: 0 runs none, None is all of them. `more` are
    the other fields of the order.
    """
    how = Order(sample=audit_sample, backbone=more.get("backbone"), device=more.get("device", "cpu"))
    return PublishOrder(index, **{"data_rules": data_rules, "audit": partial(audited, order=how), **more})


def audited(subject: Subject, built: Built, order: Order) -> Verdict:
    """Audit the wheel that would be written. A sample of 0 states runs no language model."""
    candidate = Candidate(built.wheel.file_name, built.wheel.data, built.states.data, subject.traced)
    checks: Sequence[Check] = QUICK if order.sample == 0 else (*QUICK, *MEASURED_AGAIN)
    audit = run_audit(AuditSubject(subject.catalog, subject.artifacts, order, candidate), checks)
    wrong = [f"{verdict.check}: {verdict.detail}" for verdict in audit.failures]
    if wrong or not audit.passed:
        return Verdict(False, _first(wrong))
    again = "every state" if order.sample is None else f"{order.sample} states"
    return Verdict(True, f"{len(checks)} checks passed, {again} measured again")


def _first(problems: Sequence[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")
