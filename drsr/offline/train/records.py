"""Trained scorers and their operating points in the catalog: found by what they were made from, recorded once."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.statements import insert_new

TRAINING_VERSION = "training/1"
"""Changes whenever the same frames and parameters would give other weights."""
CALIBRATION_VERSION = "calibration/1"
"""Changes whenever the same scores and parameters would give another choice."""

FOLD_SCORES = "fold_scores"
"""Under which name a cross-fitted run's metrics have the key of its fold scores."""


class TrainingRecord(NamedTuple):
    """A row of `training_run`; the table explains each column."""

    id: int
    run_key: str
    ablation: str
    version: str
    params: dict[str, Any]
    view_id: int
    labeler_id: int
    layout_hash: str
    train_hash: str
    validation_hash: str
    train_sets: int
    train_trajectories: int
    validation_sets: int
    validation_trajectories: int
    seeds: list[int]
    chosen_epochs: list[int]
    metrics: dict[str, Any]
    weights: str
    history: str
    code_version: str
    seconds: float
    trained_at: datetime.datetime

    @property
    def source(self) -> str | None:
        """The one source whose states it was made from; None: all."""
        found: str | None = self.params.get("source")
        return found

    @property
    def fold_scores(self) -> str | None:
        """Key of the scores by members that never saw the task they score; None unless cross-fitted."""
        found: str | None = self.metrics.get(FOLD_SCORES)
        return found

    @property
    def scored_by(self) -> str:
        """Return what a calibration of it searches: the weights or, if it was cross-fitted, the fold scores."""
        return self.weights if self.fold_scores is None else f"{self.weights} {self.fold_scores}"

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"trained_at": self.trained_at.isoformat(timespec="seconds")}


class CalibrationRecord(NamedTuple):
    """A row of `calibration_run`; the table explains each column."""

    id: int
    calibration_key: str
    training_run_id: int
    mode: str
    version: str
    params: dict[str, Any]
    validation_hash: str
    train_hash: str | None
    abstains_always: bool
    max_cardinality: int
    uncertainty_coefficient: float
    risk_threshold: float | None
    removal_cap: float
    states: int
    incomplete_states: int
    tried: int
    admissible: int
    selected: int
    unsafe_rate: float | None
    mean_harm: float | None
    mean_removal: float
    unsafe_bound: float | None
    confidence: float | None
    bound: str | None
    explanation: str
    search_table: str
    code_version: str
    calibrated_at: datetime.datetime

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"calibrated_at": self.calibrated_at.isoformat(timespec="seconds")}


def find_training_run(connection: Connection, run_key: str) -> TrainingRecord | None:
    """Return the scorer that was made from exactly these inputs."""
    row = connection.execute(_trained().where(TrainingRun.run_key == run_key)).one_or_none()
    return None if row is None else TrainingRecord(*row)


def get_training_run(connection: Connection, row_id: int) -> TrainingRecord:
    """Return the scorer of a calibration."""
    return TrainingRecord(*connection.execute(_trained().where(TrainingRun.id == row_id)).one())


def latest_training_runs(connection: Connection, limit: int) -> list[TrainingRecord]:
    """Return all of them, newest first."""
    query = _trained().order_by(TrainingRun.trained_at.desc(), TrainingRun.id.desc()).limit(limit)
    return [TrainingRecord(*row) for row in connection.execute(query)]


def record_training_run(connection: Connection, row: Mapping[str, Any]) -> TrainingRecord:
    """Record it in the caller's write transaction unless it exists; return the existing or new record."""
    insert_new(connection, TrainingRun, [row])
    found = find_training_run(connection, row["run_key"])
    assert found is not None  # it was inserted by this transaction or before it
    return found


def find_calibration(connection: Connection, calibration_key: str) -> CalibrationRecord | None:
    """Return the outcome for exactly these inputs."""
    row = connection.execute(_calibrated().where(CalibrationRun.calibration_key == calibration_key)).one_or_none()
    return None if row is None else CalibrationRecord(*row)


def get_calibration(connection: Connection, row_id: int) -> CalibrationRecord:
    """Return the operating point of a release."""
    return CalibrationRecord(*connection.execute(_calibrated().where(CalibrationRun.id == row_id)).one())


def latest_calibrations(connection: Connection, limit: int, mode: str | None = None) -> list[CalibrationRecord]:
    """Return all of them or those of one mode, newest first."""
    query = _calibrated().order_by(CalibrationRun.calibrated_at.desc(), CalibrationRun.id.desc()).limit(limit)
    if mode is not None:
        query = query.where(CalibrationRun.mode == mode)
    return [CalibrationRecord(*row) for row in connection.execute(query)]


def record_calibration(connection: Connection, row: Mapping[str, Any]) -> CalibrationRecord:
    """Record it in the caller's write transaction unless it exists; return the existing or new record."""
    insert_new(connection, CalibrationRun, [row])
    found = find_calibration(connection, row["calibration_key"])
    assert found is not None  # it was inserted by this transaction or before it
    return found


def _trained() -> Select[Any]:
    return select(*(getattr(TrainingRun, field) for field in TrainingRecord._fields))


def _calibrated() -> Select[Any]:
    return select(*(getattr(CalibrationRun, field) for field in CalibrationRecord._fields))
