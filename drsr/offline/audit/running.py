"""An audit from start to end: every check runs, even after others have failed."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import drsr
from drsr.backbone.file_hashes import hashed_anew
from drsr.errors import DrsrError
from drsr.offline.audit.checks import (
    calibration,
    chain,
    data_rules,
    future,
    golden,
    judged_scorer,
    labels,
    normaliser,
    promises,
    retrained_scorer,
    split_reads,
    splits,
    states,
    weight_files,
    withdrawals,
)
from drsr.offline.audit.exclusions import CHECK as EXCLUSIONS
from drsr.offline.audit.journal import CHECK as JOURNAL
from drsr.offline.ingest.absent_texts import AbsentTexts, absent_texts
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Section, Severity, Verdict, run_check, without_words

CHECKS: tuple[Check[Subject], ...] = (
    weight_files.CHECK,
    chain.CHECK,
    JOURNAL,
    splits.CHECK,
    states.CHECK,
    EXCLUSIONS,
    split_reads.CHECK,
    withdrawals.CHECK,
    promises.CHECK,
    normaliser.CHECK,
    judged_scorer.CHECK,
    calibration.CHECK,
    golden.CHECK,
    future.CHECK,
    labels.CHECK,
    data_rules.CHECK,
)
"""Single questions, the quick ones first; then the rules, which are many."""
RETRAIN = retrained_scorer.CHECK
"""The further check, made if it is quick or somebody wants to wait for it."""
QUICK_SECONDS = 600.0
"""Training that took no longer is repeated in every audit."""

Progress = Callable[[Check[Subject], int, int], None]
_PACKAGES = ("numpy", "torch", "transformers", "safetensors", "sqlalchemy", "pyarrow", "great_expectations")


class Audit(NamedTuple):
    """The results of all checks."""

    about: dict[str, str]
    """Names, places and hashes of the audited policy."""
    versions: dict[str, str]
    """With what."""
    sample: int | None
    seed: int
    sections: tuple[Section[Subject], ...]
    finished_at: datetime.datetime
    absent: AbsentTexts = AbsentTexts(0, 0, ())
    """Runs whose texts are not here."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for section in self.sections for verdict in section.verdicts)

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The worst first."""
        wrong = (verdict for verdict in self.verdicts if not verdict.passed)
        return tuple(sorted(wrong, key=lambda verdict: list(Severity).index(verdict.severity)))

    @property
    def in_part(self) -> tuple[Verdict, ...]:
        """Return the verdicts that passed as far as they could be computed without the texts of some runs."""
        return tuple(verdict for verdict in self.verdicts if verdict.passed and verdict.not_computed)

    @property
    def summary(self) -> tuple[Verdict, ...]:
        """The severity table: what failed first, the worst of it before the rest; then what was computed in part; then
        what passed, rules as one."""
        passed = []
        for check, verdicts, *_ in self.sections:
            kept = [verdict for verdict in verdicts if verdict.passed and not verdict.not_computed]
            if len(verdicts) > 1 and kept:
                worst = min((verdict.severity for verdict in verdicts), key=list(Severity).index)
                counts = Counter(verdict.check.partition(":")[0] for verdict in kept)
                said = ", ".join(f"{count} of {dataset}" for dataset, count in counts.items())
                kept = [Verdict(check.name, worst, True, f"{len(kept)} rules: {said}")]
            passed += kept
        return (*self.failures, *self.in_part, *passed)

    @property
    def first_lines(self) -> tuple[str, ...]:
        """Return what is said before everything else: what this audit did not look at."""
        if any(section.check.name == RETRAIN.name for section in self.sections):
            return self.without_texts
        said = "the scorer was NOT trained again: that its weights come from the training split is not shown"
        return (f"{said} (--retrain)", *self.without_texts)

    @property
    def without_texts(self) -> tuple[str, ...]:
        """Return the first lines where texts are missing: which verdicts wait for them, and how to complete these."""
        if not self.in_part:
            return ()
        count = len(self.in_part)
        head = f"{count} {'verdict' if count == 1 else 'verdicts'} could not be computed without texts"
        return (
            f"{head} ({self.absent.said}):" if self.absent else f"{head}:",
            *(f"  {verdict.check}: {verdict.not_computed}" for verdict in self.in_part),
            f"  complete them: {self.absent.hint}, then audit again",
        )

    @property
    def passed(self) -> bool:
        return bool(self.verdicts) and not self.failures

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "about": self.about,
            "versions": self.versions,
            "sample": self.sample,
            "seed": self.seed,
            "finished_at": self.finished_at.isoformat(timespec="seconds"),
            "first_lines": list(self.first_lines),
            "without_texts": list(self.without_texts),
            "checks": [
                {
                    "name": section.check.name,
                    "asks": section.check.asks,
                    "how": section.check.how,
                    "seconds": round(section.seconds, 3),
                    "verdicts": [verdict._asdict() for verdict in section.verdicts],
                }
                for section in self.sections
            ],
        }


def run_audit(
    subject: Subject,
    checks: Sequence[Check[Subject]] | None = None,
    progress: Progress = lambda check, done, total: None,
) -> Audit:
    """Run every check that the order asks for, or those that are named. Reads, and writes nothing; what was remembered
    of large files is not believed."""
    sections = []
    asked = (*CHECKS, RETRAIN) if checks is None and trains_again(subject) else CHECKS
    with hashed_anew():
        for check in asked if checks is None else checks:
            progress(check, 0, 0)
            sections.append(run_check(check, subject, partial(progress, check)))
    now = datetime.datetime.now(datetime.UTC)
    order = subject.order
    with subject.catalog.reading() as connection:
        absent = absent_texts(connection)
    return Audit(describe(subject), versions(), order.sample, order.seed, tuple(sections), now, absent)


def trains_again(subject: Subject) -> bool:
    """Return whether the order asks for it, or leaves it open and it is quick."""
    if subject.order.retrain is not None:
        return subject.order.retrain
    try:
        return subject.run.seconds <= QUICK_SECONDS
    except DrsrError:  # the checks will say so
        return False


def describe(subject: Subject) -> dict[str, str]:
    """Return what is audited, as far as it can be read."""
    about = {"audited": subject.named}
    try:
        if subject.wheel_sha256 is not None:
            about["SHA-256 of the wheel"] = subject.wheel_sha256
        if subject.has_policy:
            numbers = subject.policy.numbers
            about |= {
                "policy version": numbers.version,
                "policy identity": subject.policy.identity,
                "made with drsr": numbers.drsr_version,
                "language model": numbers.backbone.name,
                "identity of the language model": numbers.backbone.identity,
                "feature layout": numbers.layout_hash,
            }
        about["calibration"] = subject.calibration.calibration_key
        about["its mode"] = subject.calibration.mode
        about["training run"] = subject.run.run_key
        about["scorer weights"] = subject.run.weights
        about["labeler"] = subject.labeler.name
        about["feature view"] = subject.view.shown
        about["end of the hash chain"] = subject.lineage.links[-1].sha256 if subject.has_policy else "not published"
    except DrsrError as error:
        about["not readable"] = error.what
    except Exception as error:
        about["not readable"] = without_words(error)
    return about | {"catalog": subject.catalog.location, "artifact store": subject.artifacts.location}


def versions() -> dict[str, str]:
    """Of everything that computed the verdicts."""
    found = {"drsr": drsr.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | {"processor": platform.machine(), "system": platform.system()}
