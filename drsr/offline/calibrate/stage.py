"""The calibrate stage: the operating point of the scorer that the present data gave, chosen on validation.

Incremental by content like training: the same scorer, frames and parameters are not searched twice. When no policy is
admissible the record says so, and a policy made from it always abstains.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

import drsr
from drsr.decide.selection import SelectionRule
from drsr.errors import ScorerNotTrained
from drsr.offline.calibrate import search as calibration
from drsr.offline.calibrate.certificates import (
    CertifiedCalibration,
    PointBound,
    bound_at,
    calibrate_certified,
    certify_cross_fitted,
)
from drsr.offline.calibrate.files import read_search_table, search_table_csv
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.params import CalibrateParams, Params, calibrate_params
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.records import (
    CALIBRATION_VERSION,
    CalibrationRecord,
    TrainingRecord,
    find_calibration,
    record_calibration,
)
from drsr.offline.train.scored_sets import ScoredSets, score_frame
from drsr.offline.train.stage import TrainingInputs, find_trained, load_fold_scores, load_trained
from drsr.scorer.frozen import FrozenScorer


class Calibrated(NamedTuple):
    record: CalibrationRecord
    run: TrainingRecord
    """The scorer that was calibrated."""
    is_new: bool
    """False if it was already calibrated from the same inputs, so that nothing was done."""


def calibrate(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: Params, *, certified: bool = False
) -> Calibrated:
    """Choose K, beta and tau for the full scorer of these inputs."""
    run = require_trained(catalog, artifacts, inputs, params)
    mode, train_hash, key = _identity(inputs, params, run, certified=certified)
    known = calibration_of(catalog, inputs, params, run, certified=certified)
    if known is not None and artifacts.exists(known.search_table):
        return Calibrated(known, run, is_new=False)
    with catalog.writing() as connection:
        run_id = start_run(connection, "calibrate", mode, drsr.__version__)
    frames = inputs.train, inputs.validation
    scorer = load_trained(artifacts, run)
    numbers, table = operating_numbers(artifacts, run, scorer, frames, params.calibrate, certified=certified)
    row = {
        "calibration_key": key,
        "training_run_id": run.id,
        "mode": mode,
        "version": CALIBRATION_VERSION,
        "params": params.calibrate.recorded(),
        "validation_hash": inputs.validation_hash,
        "train_hash": train_hash,
        "search_table": artifacts.put(table),
        "code_version": drsr.__version__,
        "calibrated_at": datetime.datetime.now(datetime.UTC),
        **numbers,
    }
    with catalog.writing() as connection:
        before = ledger.calibrations(connection, key)
        record = record_calibration(connection, row)
        made = ledger.changed(before, ledger.calibrations(connection, key))
        note(connection, "calibrate", {"calibration": made})
        finish_run(connection, run_id, {"tried": record.tried, "abstains_always": record.abstains_always})
    return Calibrated(record, run, is_new=True)


def calibration_of(
    catalog: Catalog, inputs: TrainingInputs, params: Params, run: TrainingRecord, *, certified: bool = False
) -> CalibrationRecord | None:
    """Return the calibration of this scorer on these inputs, or None."""
    with catalog.reading() as connection:
        return find_calibration(connection, _identity(inputs, params, run, certified=certified).key)


class _Identity(NamedTuple):
    mode: str
    train_hash: str | None
    key: str


def _identity(inputs: TrainingInputs, params: Params, run: TrainingRecord, *, certified: bool) -> _Identity:
    mode = "certified" if certified else "plain"
    train_hash = inputs.train_hash if certified or run.fold_scores is not None else None
    numbers = params.calibrate.recorded()
    key = calibration_key(CALIBRATION_VERSION, mode, numbers, run.scored_by, inputs.validation_hash, train_hash)
    return _Identity(mode, train_hash, key)


def calibration_key(
    version: str,
    mode: str,
    params: Mapping[str, Any],
    scored_by: str,
    validation_hash: str,
    train_hash: str | None,
) -> str:
    """Return the SHA-256 of everything that determines the choice; `train_hash` is part of it if the training split was
    used."""
    return content_key(
        {
            "version": version,
            "mode": mode,
            "params": params,
            "scorer": scored_by,
            "validation": validation_hash,
            "train": train_hash,
        }
    )


class CalibrationScores(NamedTuple):
    """The scores that an operating point is chosen by."""

    chosen_by: ScoredSets[TrainingFrame]
    """Scored sets of validation or, if the scorer was cross-fitted, of both splits, by members that never saw a set's
    task."""
    cross_fitted: bool
    train: ScoredSets[TrainingFrame] | None = None
    """Scored sets of the training split, if the thresholds to certify come from it."""


def scores_of(
    artifacts: ArtifactStore,
    run: TrainingRecord,
    scorer: FrozenScorer,
    frames: tuple[TrainingFrame, TrainingFrame],
    *,
    certified: bool,
) -> CalibrationScores:
    """Score a training run's frames of train and validation with its scorer, or read the fold scores that it left."""
    folds = load_fold_scores(artifacts, run, *frames)
    if folds is not None:
        return CalibrationScores(folds, cross_fitted=True)
    train, validation = frames
    seen = score_frame(scorer, train) if certified else None
    return CalibrationScores(score_frame(scorer, validation), cross_fitted=False, train=seen)


def operating_numbers(
    artifacts: ArtifactStore,
    run: TrainingRecord,
    scorer: FrozenScorer,
    frames: tuple[TrainingFrame, TrainingFrame],
    params: CalibrateParams,
    *,
    certified: bool,
) -> tuple[dict[str, Any], bytes]:
    """Return the numbers of a calibration of this run as its record has them, and the search table: with this scorer,
    on the run's frames of train and validation. The same inputs give the same."""
    scored = scores_of(artifacts, run, scorer, frames, certified=certified)
    if certified and scored.train is not None:
        return _certified(calibrate_certified(scored.train, scored.chosen_by, params), params)
    if certified:
        return _certified(certify_cross_fitted(scored.chosen_by, params), params)
    search = calibration.calibrate_cross_fitted if scored.cross_fitted else calibration.calibrate
    return _plain(search(scored.chosen_by, params), params)


def require_trained(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, params: Params
) -> TrainingRecord:
    """Return the full scorer of these inputs, or raise ScorerNotTrained: a scorer of older labels is never calibrated
    on newer ones."""
    run = find_trained(catalog, artifacts, inputs, params.train)
    if run is None:
        raise ScorerNotTrained(
            "no scorer was trained on the present labels, features and parameters", hint="run drsr train first"
        )
    return run


def plain_search(
    artifacts: ArtifactStore, inputs: TrainingInputs, calibrated: Calibrated, params: CalibrateParams
) -> calibration.SearchTable:
    """Return the table of every observed score: kept by a plain calibration, searched again for a certified one."""
    if calibrated.record.mode == "plain":
        return read_search_table(artifacts.get(calibrated.record.search_table))
    scorer = load_trained(artifacts, calibrated.run)
    frames = inputs.train, inputs.validation
    scored = scores_of(artifacts, calibrated.run, scorer, frames, certified=False).chosen_by
    return calibration.search(scored, params)


def point_bound(
    artifacts: ArtifactStore,
    record: CalibrationRecord,
    run: TrainingRecord,
    scorer: FrozenScorer,
    frames: tuple[TrainingFrame, TrainingFrame],
) -> PointBound | None:
    """Return the finite-sample bound of the point that a plain calibration chose. None if it chose none, or if the
    calibration is certified and has its own."""
    point = operating_point(record)
    if record.mode != "plain" or point is None:
        return None
    scored = scores_of(artifacts, run, scorer, frames, certified=False).chosen_by
    return bound_at(scored, point, calibrate_params(record.params))


def operating_point(record: CalibrationRecord) -> calibration.OperatingPoint | None:
    """Return the chosen point; None if the policy always abstains."""
    if record.risk_threshold is None or record.unsafe_rate is None or record.mean_harm is None:
        return None
    return calibration.OperatingPoint(
        record.max_cardinality,
        record.uncertainty_coefficient,
        record.risk_threshold,
        record.selected,
        record.unsafe_rate,
        record.mean_harm,
        record.mean_removal,
    )


def frozen_rule(record: CalibrationRecord) -> SelectionRule:
    """Return the rule of a policy made from this calibration; it refuses every set if nothing was admissible."""
    threshold = float("-inf") if record.risk_threshold is None else record.risk_threshold
    return SelectionRule(record.max_cardinality, record.removal_cap, threshold)


def _plain(found: calibration.Calibration, params: CalibrateParams) -> tuple[dict[str, Any], bytes]:
    admissible = int(found.table.admissible(params.max_unsafe_rate, params.max_mean_harm).sum())
    numbers = _numbers(found, params) | {"admissible": admissible}
    return numbers | {"unsafe_bound": None, "confidence": None, "bound": None}, search_table_csv(found, params)


def _certified(found: CertifiedCalibration, params: CalibrateParams) -> tuple[dict[str, Any], bytes]:
    table = found.calibration.table
    allowed = table.admissible(params.max_unsafe_rate, params.max_mean_harm)
    admissible = sum(bool(ok) and policy.certified for ok, policy in zip(allowed, found.tried, strict=True))
    numbers = _numbers(found.calibration, params) | {
        "admissible": admissible,
        "unsafe_bound": None if found.chosen is None else found.chosen.unsafe_bound,
        "confidence": found.confidence,
        "bound": found.bound,
    }
    return numbers, search_table_csv(found, params)


def _numbers(found: calibration.Calibration, params: CalibrateParams) -> dict[str, Any]:
    chosen, rule = found.chosen, found.rule(params)
    return {
        "abstains_always": chosen is None,
        "max_cardinality": rule.max_cardinality,
        "uncertainty_coefficient": 0.0 if chosen is None else chosen.uncertainty_coefficient,
        "risk_threshold": None if chosen is None else chosen.risk_threshold,
        "removal_cap": rule.removal_cap,
        "states": found.table.states,
        "incomplete_states": found.incomplete_states,
        "tried": len(found.table),
        "selected": 0 if chosen is None else chosen.selected,
        "unsafe_rate": None if chosen is None else chosen.unsafe_rate,
        "mean_harm": None if chosen is None else chosen.mean_harm,
        "mean_removal": 0.0 if chosen is None else chosen.mean_removal,
        "explanation": found.explanation,
    }
