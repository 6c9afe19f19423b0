"""Checks and verdicts: the questions asked of a policy and its data, before it is published and in an audit.

Plain values below every room. A rule of the data, a gate before publishing and a question of an audit are answered
alike; `publish/subject.py` is what they are asked about, `audit/checks/` has the questions.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from drsr.errors import DrsrError, MissingExtra

SHOWN = 20
"""So many offending items are listed; the detail says how many there are."""
Asked = TypeVar("Asked")
"""Subject of a check."""


class Severity(StrEnum):
    """The severity of a failed check, in the order of the table."""

    CRITICAL = "critical"
    """Information may have leaked, or a number is not what it is said to be: do not use the policy."""
    MAJOR = "major"
    """Something cannot be traced or computed again: find out why before the policy is used."""


class Verdict(NamedTuple):
    """The answer to one question."""

    check: str
    severity: Severity
    passed: bool
    detail: str
    """Finding, with numbers."""
    hint: str = ""
    """Advice on what to do; empty if it passed."""
    items: tuple[str, ...] = ()
    """The first few offending states, runs or files."""
    evidence: Mapping[str, Any] = {}
    """The numbers behind it, as JSON values; what the report plots."""
    not_computed: str = ""
    """Parts that could not be looked at because texts of runs are not here; empty if everything was."""

    @property
    def word(self) -> str:
        """For tables of an audit."""
        return "failed" if not self.passed else "in part" if self.not_computed else "passed"

    @property
    def row(self) -> dict[str, Any]:
        """The answer in three words, for a table."""
        return {"check": self.check, "passed": self.passed, "detail": self.detail}


Told = Callable[[int, int], None]
"""Called with the number of finished items and of all."""


class Check(NamedTuple, Generic[Asked]):
    """One question."""

    name: str
    severity: Severity
    asks: str
    """The question, for somebody who has not read the code."""
    how: str
    """Method of the answer, in enough detail to do it differently and compare."""
    run: Callable[[Asked, Told], Sequence[Verdict]]


class Section(NamedTuple, Generic[Asked]):
    """A check that was run."""

    check: Check[Asked]
    verdicts: tuple[Verdict, ...]
    seconds: float
    trace: str = ""
    """Place where it broke off, for debugging; may quote anything, and is never part of a report."""


def run_check(check: Check[Asked], subject: Asked, told: Told = lambda done, total: None) -> Section[Asked]:
    """Run one check. A check that breaks off has failed; only a missing package is an error."""
    started = time.monotonic()
    trace = ""
    try:
        verdicts = check.run(subject, told) or failed(check, "came to no verdict", "a fault of drsr: report it")
    except MissingExtra:
        raise
    except DrsrError as error:
        where = f" ({error.where})" if error.where else ""
        hint = error.hint or "fix this and audit again"
        verdicts, trace = failed(check, f"could not be checked: {error.what}{where}", hint), traceback.format_exc()
    except Exception as error:  # what was made to break a check must not break the audit
        hint = "find out what it stumbled over: drsr audit --debug shows the place"
        verdicts, trace = failed(check, f"could not be checked: {without_words(error)}", hint), traceback.format_exc()
    return Section(check, tuple(verdicts), time.monotonic() - started, trace)


def without_words(error: Exception) -> str:
    """Return the error's class and place, not its text, which may quote a recorded run."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name}"


def passed(check: Check[Any], detail: str, **evidence: Any) -> list[Verdict]:
    return [Verdict(check.name, check.severity, True, detail, evidence=evidence)]


def failed(check: Check[Any], detail: str, hint: str, items: Sequence[str] = (), **evidence: Any) -> list[Verdict]:
    return [Verdict(check.name, check.severity, False, detail, hint, tuple(items[:SHOWN]), evidence)]


def without_texts(verdicts: Sequence[Verdict], what: str) -> list[Verdict]:
    """Let verdicts say what could not be looked at for want of texts."""
    return [verdict._replace(not_computed=what) for verdict in verdicts]


def first_of(items: Sequence[str]) -> str:
    """Return the first item, and how many more."""
    return items[0] + (f" (and {len(items) - 1:,} more)" if len(items) > 1 else "")
