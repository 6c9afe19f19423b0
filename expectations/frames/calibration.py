"""The frames of `calibration`: one row per calibration, and the search table of the newest of each mode.

Calibrations are few whatever the data; a search table has a row per score observed on validation, so reading the newest
ones is linear in the validation split. Older ones were judged when they were the newest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from sqlalchemy import select

from drsr.expectations.rules import Frames
from drsr.offline.catalog.scorer_tables import MODES, CalibrationRun, TrainingRun
from drsr.offline.train.records import CalibrationRecord, latest_calibrations

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore


_COPIED = (
    *("abstains_always", "max_cardinality", "uncertainty_coefficient", "removal_cap", "states", "selected"),
    *("admissible", "tried", "unsafe_rate", "mean_harm", "mean_removal", "unsafe_bound"),
)


def calibration_frames(catalog: Catalog, artifacts: ArtifactStore) -> Frames:
    hashes = select(TrainingRun.id, TrainingRun.validation_hash)
    with catalog.reading() as connection:
        validation = dict(connection.execute(hashes).tuples().all())
        fields = [getattr(CalibrationRun, field) for field in CalibrationRecord._fields]
        every = [CalibrationRecord(*row) for row in connection.execute(select(*fields).order_by(CalibrationRun.id))]
        newest = [found for mode in MODES for found in latest_calibrations(connection, 1, mode)]
    rows = [_row(record, validation[record.training_run_id]) for record in every]
    searched = [search_row(record, artifacts.get(record.search_table)) for record in newest]
    return {
        "calibrations": pd.DataFrame(rows, columns=_NAMES),
        "search_tables": pd.DataFrame(searched, columns=list(SEARCHED)),
    }


def _row(record: CalibrationRecord, scorer_validation_hash: str) -> dict[str, Any]:
    params = record.params
    certified = record.mode == "certified"
    grid = params["certified"] if certified else params
    return {
        "calibration": record.calibration_key[:12],
        "mode": record.mode,
        **{name: getattr(record, name) for name in _COPIED},
        "nothing_admissible": record.admissible == 0,
        "no_bound_needed": record.abstains_always or not certified,
        "max_unsafe_rate": params["max_unsafe_rate"],
        "max_mean_harm": params["max_mean_harm"],
        "max_unsafe_bound": params["certified"]["max_unsafe_rate"],
        "cardinalities": list(grid["max_cardinalities"]),
        "coefficients": list(grid["uncertainty_coefficients"]),
        "asked_removal_cap": params["removal_cap"],
        "validation_hash": record.validation_hash,
        "scorer_validation_hash": scorer_validation_hash,
    }


_NAMES = [
    *("calibration", "mode", *_COPIED, "nothing_admissible", "no_bound_needed", "max_unsafe_rate", "max_mean_harm"),
    *("max_unsafe_bound", "cardinalities", "coefficients", "asked_removal_cap", "validation_hash"),
    "scorer_validation_hash",
]


SEARCHED = (
    *("calibration", "mode", "abstains_always", "tried", "rows", "admissible", "admissible_rows", "chosen_rows"),
    *("wanted_rows", "mean_removal", "largest_removal"),
)


def search_row(record: CalibrationRecord, table: bytes) -> dict[str, Any]:
    """Count from the stored table alone: its policies, and how many are admissible; whether the chosen one is among
    them with the numbers of the record; whether an admissible one removes more."""
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8"))))
    admissible = [row for row in rows if _keeps(row, record.params) and row.get("certified", "1") == "1"]
    chosen = [row for row in admissible if _is_chosen(row, record)]
    return {
        "calibration": record.calibration_key[:12],
        "mode": record.mode,
        "abstains_always": record.abstains_always,
        "tried": record.tried,
        "rows": len(rows),
        "admissible": record.admissible,
        "admissible_rows": len(admissible),
        "chosen_rows": len(chosen),
        "wanted_rows": 0 if record.abstains_always else 1,
        "mean_removal": record.mean_removal,
        "largest_removal": max((float(row["mean_removal"]) for row in admissible), default=0.0),
    }


def _keeps(row: dict[str, str], params: Mapping[str, Any]) -> bool:
    """Selects something, and keeps to both limits, by the counts and not by what the table says itself. Where sources
    are weighted, the weighted counts must keep to the first limit too; a table without them keeps to nothing."""
    if int(row["selected"]) == 0:
        return False
    kinds = ("", "balanced_") if params.get("source_balance") else ("",)
    if any(f"{kind}unsafe" not in row for kind in kinds):
        return False
    rate = max(int(row[f"{kind}unsafe"]) / int(row[f"{kind}selected"]) for kind in kinds)
    return bool(rate <= params["max_unsafe_rate"] and float(row["mean_harm"]) <= params["max_mean_harm"])


def _is_chosen(row: dict[str, str], record: CalibrationRecord) -> bool:
    """The numbers in the table are written so that they give the same bits."""
    return record.risk_threshold is not None and (
        int(row["max_cardinality"]),
        float(row["uncertainty_coefficient"]),
        float(row["risk_threshold"]),
        int(row["selected"]),
        float(row["unsafe_rate"]),
        float(row["mean_harm"]),
        float(row["mean_removal"]),
    ) == (
        record.max_cardinality,
        record.uncertainty_coefficient,
        record.risk_threshold,
        record.selected,
        record.unsafe_rate,
        record.mean_harm,
        record.mean_removal,
    )
