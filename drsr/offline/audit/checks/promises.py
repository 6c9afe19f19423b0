"""Limits, seeds and rules are those that were promised; and how often somebody tried on the same data.

A promise is a file that `drsr promise` writes before labels are read, to be put where the team cannot change it.
The journal says when it was made. Nothing in the catalog can stand for the file itself: whoever can change the limits
can change the catalog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson
from sqlalchemy import Connection, func, select

from drsr.errors import InputError
from drsr.offline.audit.checks.data_rules import SHIPPED
from drsr.offline.audit.chronology import read_chronology
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import event_of, note
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.params import Params, calibrate_params, train_params
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed
from drsr.version import __version__

FORMAT = "drsr-promise/1"
_BLOCKS = ("train", "calibrate")


def promise(catalog: Catalog, params: Params) -> bytes:
    """Return the promise that a file of parameters makes now, with the number of states that are labelled already.

    The journal keeps its SHA-256.
    """
    measured = select(func.count()).select_from(StateMeasurement).where(StateMeasurement.outcome == "labelled")
    with catalog.writing() as connection:
        labelled = connection.execute(measured).scalar_one()
        document = {
            "format": FORMAT,
            "drsr_version": __version__,
            "labelled_states": labelled,
            "params": {block: asdict(getattr(params, block)) for block in _BLOCKS},
            "rules": SHIPPED,
        }
        made = orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"
        note(connection, "promise", {"promise": {hashlib.sha256(made).hexdigest(): "made"}}, labelled_states=labelled)
    return made


def check_promises(subject: Subject, told: Told) -> list[Verdict]:
    run, calibration = subject.run, subject.calibration
    with subject.catalog.reading() as connection:
        same = (TrainingRun.validation_hash == run.validation_hash, TrainingRun.train_hash == run.train_hash)
        trained = select(func.count()).select_from(TrainingRun).where(*same)
        calibrated = (
            select(func.count())
            .select_from(CalibrationRun)
            .where(CalibrationRun.validation_hash == calibration.validation_hash)
        )
        trainings = connection.execute(trained).scalar_one()
        calibrations = connection.execute(calibrated).scalar_one()
        others = _other_recipes(connection, subject)
    limits = calibration.params
    tries = f"{trainings:,} trainings and {calibrations:,} calibrations were made on the same data"
    tries += f", and {others:,} other recipes were calibrated on other data of this view" if others else ""
    kept_to = (
        f"unsafe rate {limits['max_unsafe_rate']:g}, mean harm {limits['max_mean_harm']:g}, removal "
        f"{limits['removal_cap']:g}, {len(run.seeds)} seeds"
    )
    evidence = {"trainings": trainings, "calibrations": calibrations, "other recipes": others, "limits": dict(limits)}
    if subject.order.promise is None:
        return passed(CHECK, f"NOT COMPARED: no promise was handed over; {kept_to}; {tries}", **evidence)
    promised = _read(subject.order.promise)
    # Recorded parameters leave out what was not used; read back they are whole, as a promise has them.
    found = {"train": asdict(train_params(run.params)), "calibrate": asdict(calibrate_params(calibration.params))}
    problems = [*_broken(promised["params"], found), *_fewer_rules(promised["rules"])]
    name = hashlib.sha256(subject.order.promise).hexdigest()
    with subject.catalog.reading() as connection:
        made, fitted = event_of(connection, name, "promise"), event_of(connection, run.run_key, "train")
    if made is not None and fitted is not None and made.number > fitted.number:
        problems.append(
            f"the promise was made after the scorer was trained (event {made.number} after {fitted.number})"
        )
    if problems:
        hint = "ask why it was changed after it was promised; fit again with what was promised"
        return failed(CHECK, first_of(problems), hint, problems, **evidence, promise=name)
    at = f"made when {promised['labelled_states']:,} states were labelled, "
    at += "which this catalog's journal does not know" if made is None else f"event {made.number} of the journal"
    if made is not None:
        with subject.catalog.reading() as connection:
            earlier = _recipes_before(connection, subject, made.number)
        at += f", after {earlier:,} other recipes had been calibrated with these labels" if earlier else ""
    return passed(CHECK, f"kept, all of promise {name[:12]} ({at}): {kept_to}; {tries}", **evidence, promise=name)


def _other_recipes(connection: Connection, subject: Subject) -> int:
    """Count other parameters that were calibrated on other data of the same view and labeler, by any full scorer: data
    that differ by one run nobody misses are as good to try on."""
    this, calibration = subject.run, subject.calibration
    query = (
        select(TrainingRun.params, CalibrationRun.params)
        .join(CalibrationRun, CalibrationRun.training_run_id == TrainingRun.id)
        .where(TrainingRun.view_id == this.view_id, TrainingRun.labeler_id == this.labeler_id)
        .where(TrainingRun.ablation == this.ablation, CalibrationRun.mode == calibration.mode)
        .where(CalibrationRun.validation_hash != calibration.validation_hash)
    )
    found = {content_key([*params]) for params in connection.execute(query)}
    return len(found - {content_key([this.params, calibration.params])})


def _recipes_before(connection: Connection, subject: Subject, event: int) -> int:
    """Count other parameters that were calibrated with the same labeler before an event: whoever promises what turned
    out best promises nothing."""
    when = read_chronology(connection)
    columns = (CalibrationRun.calibration_key, CalibrationRun.calibrated_at, TrainingRun.params, CalibrationRun.params)
    query = select(*columns).join(TrainingRun, TrainingRun.id == CalibrationRun.training_run_id)
    query = query.where(TrainingRun.labeler_id == subject.run.labeler_id)
    found = {
        content_key(more)
        for key, at, *more in connection.execute(query)
        if when.place("calibration", key, at)[0] < event
    }
    return len(found - {content_key([subject.run.params, subject.calibration.params])})


def _read(data: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(data)
        params, rules = document["params"], document["rules"]
        sound = document["format"] == FORMAT and type(document["labelled_states"]) is int
        sound = sound and all(isinstance(params[block], dict) for block in _BLOCKS)
        sound = sound and all(type(count) is int for count in rules.values())
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise InputError(
            f"is not a promise of the format {FORMAT!r}", where="--promise", hint="drsr promise writes one"
        )
    found: dict[str, Any] = document
    return found


def _broken(promised: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for block in _BLOCKS:
        there, here = promised[block], json.loads(json.dumps(found[block]))
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                yield f"{block}.{name} was promised as {there.get(name)!r}, and is {here.get(name)!r}"


def _fewer_rules(promised: Mapping[str, int]) -> Iterator[str]:
    for dataset, count in sorted(promised.items()):
        if SHIPPED.get(dataset, 0) < count:
            yield f"{count} rules of {dataset} were promised, this version judges {SHIPPED.get(dataset, 0)}"


CHECK = Check(
    "promises kept",
    Severity.MAJOR,
    "Are limits, seeds and rules those that were promised before labels were read, and how often did somebody try?",
    "The parameters of training and calibration are compared, one by one, with the promise that --promise hands over, "
    "and the rules of the data with the numbers in it. Without a promise nothing is compared, and the verdict says so. "
    "Trainings and calibrations of this catalog on the same states are counted, and other parameters that were "
    "calibrated on other states, for people to judge.",
    check_promises,
)
