"""The log of reads: nobody read the test split to train or to calibrate, and the log knows of everything that was."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from sqlalchemy import select

from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.migrations import schema_differences
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed


class Read(NamedTuple):
    """A row of the log."""

    split: str
    purpose: str
    labels: int
    view_id: int
    labeler_id: int | None
    read_at: datetime.datetime


def check_split_reads(subject: Subject, told: Told) -> list[Verdict]:
    with subject.catalog.reading() as connection:
        columns = [getattr(SplitRead, field) for field in Read._fields]
        reads = [Read(*row) for row in connection.execute(select(*columns).order_by(SplitRead.read_at, SplitRead.id))]
    fitting = [read for read in reads if read.purpose in ("train", "calibrate")]
    problems = [
        f"the test split was read to {read.purpose} on {read.read_at:%Y-%m-%d %H:%M:%S} UTC, {read.labels:,} labels"
        for read in fitting
        if read.split == "test"
    ]
    problems += _unaccounted(subject, reads)
    with subject.catalog.reading() as connection:
        problems += [f"the catalog is not the one that drsr made: {found}" for found in schema_differences(connection)]
    evidence = {
        "reads": [[read.split, read.purpose, read.read_at.isoformat(timespec="seconds")] for read in reads],
        "trained_at": subject.run.trained_at.isoformat(timespec="seconds"),
        "calibrated_at": subject.calibration.calibrated_at.isoformat(timespec="seconds"),
    }
    if problems:
        hint = "what was fitted with it is void: draw a new test split, and find out which code read past the log"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    tested = [read for read in reads if read.split == "test" and read.labeler_id is not None]
    early = sum(read.read_at < subject.calibration.calibrated_at for read in tested)
    said = f"{len(tested)} to evaluate, {early} of these before this calibration" if tested else "none of any kind"
    detail = f"none of {len(fitting)} reads to train or calibrate was of the test split; reads of its labels: {said}"
    return passed(CHECK, detail, **evidence)


def _unaccounted(subject: Subject, reads: list[Read]) -> list[str]:
    """Frames that training and calibration must have seen, and that nobody is recorded to have read."""
    run, calibration = subject.run, subject.calibration
    needed = [
        ("train", "train", run.train_sets, run.trained_at),
        ("validation", "train", run.validation_sets, run.trained_at),
        ("validation", "calibrate", run.validation_sets, calibration.calibrated_at),
    ]
    known = {
        (read.split, read.purpose, read.labels, read.view_id, read.labeler_id): read.read_at for read in reversed(reads)
    }
    problems = []
    for split, purpose, labels, at in needed:
        first = known.get((split, purpose, labels, run.view_id, run.labeler_id))
        if first is None or first > at:
            problems.append(
                f"no read of {labels:,} labels of {split} to {purpose} is recorded before {at:%Y-%m-%d %H:%M:%S} UTC, "
                "when it must have happened"
            )
    return problems


CHECK = Check(
    "split reads",
    Severity.CRITICAL,
    "Did whoever trained or calibrated look at the test split?",
    "Every read of a split's labels is logged with its purpose by the only code that hands them out. No read to "
    "train or to calibrate may be of the test split, and for the policy's own training and calibration the log must "
    "hold reads of exactly as many labels as they say they saw, before they were done: a frame that came from "
    "elsewhere has none. Tables are compared with the models, so that no view or trigger stands for the log. "
    "How often the test split was read to evaluate before this calibration is reported, and is "
    "for people to judge.",
    check_split_reads,
)
