"""Verdicts of an audit: one per question, with its severity, and the checks that give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from drsr.offline.audit.subject import AuditSubject

SHOWN = 20
"""So many offending items are listed; the detail says how many there are."""


class Severity(StrEnum):
    """The severity of a failed check, in the order of the table."""

    CRITICAL = "critical"
    """Information may have leaked, or a number is not what it is said to be: do not use the policy."""
    MAJOR = "major"
    """Something cannot be traced or computed again: find out why before the policy is used."""


class AuditVerdict(NamedTuple):
    """The answer to one question of an audit."""

    check: str
    severity: Severity
    passed: bool
    detail: str
    """What was found, with numbers."""
    hint: str = ""
    """What to do about it; empty where it passed."""
    items: tuple[str, ...] = ()
    """What offends: states, runs, files. The first few."""
    evidence: Mapping[str, Any] = {}
    """The numbers behind it, as JSON values; what the report plots."""


Told = Callable[[int, int], None]
"""Told how many items of how many are done."""


class Check(NamedTuple):
    """One question of an audit."""

    name: str
    severity: Severity
    asks: str
    """The question, for somebody who has not read the code."""
    how: str
    """How it is answered, so that somebody else could do it otherwise and compare."""
    run: Callable[[AuditSubject, Told], Sequence[AuditVerdict]]


def passed(check: Check, detail: str, **evidence: Any) -> list[AuditVerdict]:
    return [AuditVerdict(check.name, check.severity, True, detail, evidence=evidence)]


def failed(check: Check, detail: str, hint: str, items: Sequence[str] = (), **evidence: Any) -> list[AuditVerdict]:
    return [AuditVerdict(check.name, check.severity, False, detail, hint, tuple(items[:SHOWN]), evidence)]


def first_of(items: Sequence[str]) -> str:
    """The first item, and how many more."""
    return items[0] + (f" (and {len(items) - 1:,} more)" if len(items) > 1 else "")
