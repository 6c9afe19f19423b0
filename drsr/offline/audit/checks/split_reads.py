"""The log of reads: nobody read the test split to train or calibrate, or looked at it before choosing how to.

A read to evaluate that came before a calibration is harmless for it in three cases only: it was calibrated by a recipe
that some calibration before the read had already; the read judged a policy that was released, or its recipe on other
data; or no task that is in the test split now had a label then. Why: docs/decisions/0024. What came before what is the
order of the journal's events, not of the moments in the rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from drsr.errors import SettingsError
from drsr.offline.audit.chronology import Chronology, Place, read_chronology
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.migrations import schema_differences
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.params import CalibrateParams, TrainParams, calibrate_params, train_params
from drsr.offline.publish.subject import Subject
from drsr.offline.train.ablations import FULL
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed


class Read(NamedTuple):
    """A row of the log."""

    id: int
    split: str
    purpose: str
    labels: int
    view_id: int
    labeler_id: int | None
    read_at: datetime.datetime


class Recipe(NamedTuple):
    """Everything about a calibration that somebody chose, as opposed to what followed from the data."""

    mode: str
    view_id: int
    labeler_id: int
    train: TrainParams
    calibrate: CalibrateParams


class EarlyReads(NamedTuple):
    """Reads of test labels to evaluate, from before the calibration in question."""

    reads: int
    groups: int
    """Tasks of the present test split that had a label at the last of these reads ..."""
    of_groups: int
    """... and all that have one now."""
    releases: tuple[str, ...]
    """Versions of the released policies that these reads judged."""
    problems: list[str]

    @property
    def said(self) -> str:
        judged = f", which judged release {', '.join(self.releases)}" if self.releases else ""
        return (
            f"{self.reads} of these before this calibration{judged}; {self.groups} of {self.of_groups} tasks of the "
            "present test split had a label then"
        )


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
        tested = [read for read in reads if read.split == "test" and read.labeler_id is not None]
        early = _early_reads(connection, subject, [read for read in tested if read.purpose == "evaluate"])
    evidence = {
        "reads": [[read.split, read.purpose, read.read_at.isoformat(timespec="seconds")] for read in reads],
        "trained_at": subject.run.trained_at.isoformat(timespec="seconds"),
        "calibrated_at": subject.calibration.calibrated_at.isoformat(timespec="seconds"),
        "early_reads": {
            "reads": early.reads,
            "test_groups_read": early.groups,
            "test_groups": early.of_groups,
            "releases": list(early.releases),
        },
    }
    if problems:
        hint = "what was fitted with it is void: draw a new test split, and find out which code read past the log"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    if early.problems:
        return failed(CHECK, f"{first_of(early.problems)}; {early.said}", _READ_EARLY, early.problems, **evidence)
    said = f"{len(tested)} to evaluate, {early.said if early.reads else 'none of them before this calibration'}"
    said = said if tested else "none of any kind"
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


def _early_reads(connection: Connection, subject: Subject, evaluated: Sequence[Read]) -> EarlyReads:
    """Judge the reads to evaluate that came before the calibration."""
    this = subject.calibration
    when = read_chronology(connection)
    calibrated = when.place("calibration", this.calibration_key, this.calibrated_at)
    places = sorted(when.place("read", str(read.id), read.read_at) for read in evaluated)
    early = [place for place in places if place < calibrated]
    labelled = _first_labels(connection, when) if early else {}
    groups = sum(first <= early[-1] for first in labelled.values()) if early else 0
    fitted = _calibrations(connection, when) if early else []
    own = _recipe(this.mode, this.params, subject.run.view_id, subject.run.labeler_id, subject.run.params)
    released = _released(connection)
    versions: dict[str, None] = {}
    problems = []
    for place in early:
        judged = _judged_releases(connection, when, fitted, released, place)
        versions |= dict.fromkeys(judged)
        known = own is not None and any(row.place <= place and row.recipe == own for row in fitted)
        if not known and not judged and any(first <= place for first in labelled.values()):
            problems.append(
                f"the test split was read to evaluate on {place[1]:%Y-%m-%d %H:%M:%S} UTC, and the parameters of this "
                f"calibration of {this.calibrated_at:%Y-%m-%d %H:%M:%S} UTC were first calibrated after it"
            )
    return EarlyReads(len(early), groups, len(labelled), tuple(versions), problems)


class _Calibrated(NamedTuple):
    id: int
    place: Place
    recipe: Recipe | None
    """None where another version of drsr recorded parameters that this one does not know."""


def _calibrations(connection: Connection, when: Chronology) -> list[_Calibrated]:
    """Every calibration of a full scorer, oldest first."""
    query = (
        select(
            *(CalibrationRun.id, CalibrationRun.calibration_key, CalibrationRun.calibrated_at),
            *(CalibrationRun.mode, CalibrationRun.params),
            *(TrainingRun.view_id, TrainingRun.labeler_id, TrainingRun.params),
        )
        .join(TrainingRun, TrainingRun.id == CalibrationRun.training_run_id)
        .where(TrainingRun.ablation == FULL.name)
        .order_by(CalibrationRun.id)
    )
    found = [
        _Calibrated(number, when.place("calibration", key, at), _recipe(*made))
        for number, key, at, *made in connection.execute(query)
    ]
    return sorted(found, key=lambda row: row.place)


def _recipe(mode: str, calibrated: Any, view_id: int, labeler_id: int, trained: Any) -> Recipe | None:
    # Recorded parameters leave out what was not used; read back they are whole, whichever version recorded them.
    try:
        return Recipe(mode, view_id, labeler_id, train_params(trained), calibrate_params(calibrated))
    except SettingsError:
        return None


def _released(connection: Connection) -> dict[int, list[str]]:
    """Versions of released policies by the calibration they were made from."""
    found: dict[int, list[str]] = {}
    for version, calibration in connection.execute(
        select(PolicyRelease.version, PolicyRelease.calibration_run_id).order_by(PolicyRelease.id)
    ):
        found.setdefault(calibration, []).append(version)
    return found


def _judged_releases(
    connection: Connection,
    when: Chronology,
    fitted: Sequence[_Calibrated],
    released: dict[int, list[str]],
    read: Place,
) -> list[str]:
    """Versions of the releases that a read judged: those of the recipe that had been calibrated last, if nothing was
    trained since. A night that found nothing better to publish judged the recipe of an earlier one.

    An evaluation with other parameters trains a scorer first, so a later training is somebody trying out another one.
    """
    before = [row for row in fitted if row.place <= read]
    if not before:
        return []
    last = before[-1]
    alike = [row.id for row in fitted if row.id == last.id or (row.recipe is not None and row.recipe == last.recipe)]
    versions = [version for calibration in alike for version in released.get(calibration, ())]
    trained = select(TrainingRun.run_key, TrainingRun.trained_at).where(TrainingRun.ablation == FULL.name)
    places = (when.place("training", *row) for row in connection.execute(trained))
    return [] if any(last.place < place <= read for place in places) else versions


def _first_labels(connection: Connection, when: Chronology) -> dict[str, Place]:
    """By task of the present test split: its first label, of whichever labeler."""
    query = (
        select(Trajectory.group_key, DecisionState.state_key, StateMeasurement.measured_at)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .where(Trajectory.is_current(), Trajectory.split == "test", StateMeasurement.outcome == "labelled")
    )
    found: dict[str, Place] = {}
    for group, state_key, at in connection.execute(query):
        place = when.label(state_key, at)
        found[group] = min(found.get(group, place), place)
    return found


_READ_EARLY = (
    "calibrate before you evaluate. Now either publish with the parameters that were calibrated before that read, or "
    "withdraw the test runs that had a label then (drsr withdraw) and evaluate on tasks that nobody has seen"
)
CHECK = Check(
    "split reads",
    Severity.CRITICAL,
    "Did whoever trained or calibrated look at the test split?",
    "Every read of a split's labels is logged with its purpose by the only code that hands them out. No read to train "
    "or to calibrate may be of the test split, and for the policy's own training and calibration the log must hold "
    "reads of exactly as many labels as they say they saw, before they were done: a frame that came from elsewhere has "
    'none. Tables are compared with the models, so that no view or trigger replaces the log; the check "journal" finds '
    "rows of it that were deleted, added or changed. A read to evaluate from before this calibration fails it, unless "
    "the same parameters had been calibrated before the read, or the read judged the recipe of a released policy, or "
    "no present task of the test split had a label then. How many tasks had been read, and for which releases, is "
    "reported.",
    check_split_reads,
)
