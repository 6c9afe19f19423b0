"""The order to publish a policy: the checks before it, which are the gates and those of an audit, each asked once.

All look before anything is written: the rules at the catalog as it is, the others at the wheel's own bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drsr.errors import MissingExtra
from drsr.offline.audit.checks import data_rules, future, labels
from drsr.offline.audit.running import CHECKS
from drsr.offline.publish.gates import ADMISSIBLE
from drsr.offline.publish.stage import PublishOrder
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Check, Told, Verdict, failed, passed

MEASURED_AGAIN: tuple[Check[Subject], ...] = (future.CHECK, labels.CHECK)
"""Checks that run the language model again over a sample of states."""
ALWAYS_MEASURED: tuple[Check[Subject], ...] = (labels.CHECK,)
"""The check that runs it in any case: with a sample of 0 it measures the sets that decide the threshold."""
OF_THE_WHEEL: tuple[Check[Subject], ...] = tuple(
    check for check in CHECKS if check not in (*MEASURED_AGAIN, data_rules.CHECK)
)
"""The questions of an audit that are asked of every wheel. The rules of the data are judged before there is one."""


def rules_kept(subject: Subject, told: Told) -> list[Verdict]:
    """Judge whether the data keeps every rule that was written down for it. Fail if nobody can judge that."""
    try:
        return list(data_rules.CHECK.run(subject, told))
    except MissingExtra as missing:
        hint = f"{missing.hint}; --without-expectations publishes all the same, and that is recorded"
        return failed(data_rules.CHECK, f"not judged: {missing.what} ({hint})", hint)


def rules_kept_if_judged(subject: Subject, told: Told) -> list[Verdict]:
    """Judge the same where somebody said that a machine without Great Expectations may publish. A broken rule still
    fails."""
    try:
        return list(data_rules.CHECK.run(subject, told))
    except MissingExtra as missing:
        return passed(data_rules.CHECK, f"NOT JUDGED, as --without-expectations allows: {missing.what}")


def gated_order(
    index: Path,
    *,
    audit_sample: int | None = 0,
    without_expectations: bool = False,
    more_checks: tuple[Check[Subject], ...] = (),
    **more: Any,
) -> PublishOrder:
    """Return an order to publish whose gates are the rules of the data and the questions of an audit.

    `audit_sample` states are measured again with the language model, besides the sets that decide the threshold; None
    is all of them. `more` are the other fields of the order.
    """
    rules = data_rules.CHECK._replace(run=rules_kept_if_judged if without_expectations else rules_kept)
    return PublishOrder(
        index,
        checks=(ADMISSIBLE, rules, *more_checks),
        wheel_checks=(*OF_THE_WHEEL, *(ALWAYS_MEASURED if audit_sample == 0 else MEASURED_AGAIN)),
        audit=Order(sample=audit_sample, backbone=more.get("backbone"), device=more.get("device", "cpu")),
        **more,
    )
