"""Search tables of calibrations: what each says of its choice, in one row."""

from __future__ import annotations

import csv
import io
from typing import Any

from drsr.offline.train.records import CalibrationRecord

SEARCHED = (
    *("calibration", "mode", "abstains_always", "tried", "rows", "admissible", "admissible_rows", "chosen_rows"),
    *("wanted_rows", "mean_removal", "largest_removal"),
)


def search_row(record: CalibrationRecord, table: bytes) -> dict[str, Any]:
    """Counted from the stored table alone: how many policies it has and how many of them are admissible, whether the
    chosen one is among them with the very numbers of the record, and whether an admissible one removes more."""
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8"))))
    limits = record.params["max_unsafe_rate"], record.params["max_mean_harm"]
    admissible = [row for row in rows if _keeps(row, *limits) and row.get("certified", "True") == "True"]
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


def _keeps(row: dict[str, str], max_unsafe_rate: float, max_mean_harm: float) -> bool:
    """Selects something, and keeps to both limits, by the counts and not by what the table says itself."""
    selected = int(row["selected"])
    if selected == 0:
        return False
    return int(row["unsafe"]) / selected <= max_unsafe_rate and float(row["mean_harm"]) <= max_mean_harm


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
