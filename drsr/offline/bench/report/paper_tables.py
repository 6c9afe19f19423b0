"""The paper's own tables as reference data, for comparison with ours: what its authors report, not what we measured.

The numbers are in `paper/*.csv`, rounded as printed. Methods are named as in the comparators' registry, variants as in
`train/ablations.py`. Tests compare them with each other: sums, means and changes that the paper states follow from its
rows, except those in `DOES_NOT_ADD_UP`.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from drsr.offline.bench.summarisers.token_accounting import change_percent

BASELINE = "baseline"
SOURCE = "reported by the paper"
"""Note to show with each of these numbers."""
OVERALL = "overall"

DOES_NOT_ADD_UP = {
    "full260/structural_pruning/reward": "0.701 is printed as overall; its domains give 0.698 by task, 0.704 by domain",
}
"""Numbers of the paper that do not follow from its own rows."""

_FOLDER = Path(__file__).parent / "paper"


class Eval40Row(NamedTuple):
    """Table "Eval40 context-management comparison"."""

    method: str
    domain: str
    reward: float
    tokens_millions: float
    """Mean per task, auxiliary models included."""


class Eval40Total(NamedTuple):
    """Table "Eval40 token accounting for comparator methods"."""

    method: str
    total_millions: float
    """Total of all forty tasks."""
    per_task_millions: float


class AblationRow(NamedTuple):
    """Tables of Eval40's component ablation: reward, tokens, and what they are made of, per task."""

    variant: str
    domain: str
    reward: float
    tokens_millions: float
    direct_thousands: float
    input_millions: float
    output_thousands: float
    cache_read_millions: float
    cache_creation_millions: float


class Full260Row(NamedTuple):
    """Tables "Full260 comparison by domain" and "Full260 reward and token accounting by domain"."""

    method: str
    domain: str
    tasks: int
    reward: float
    tokens_millions: float
    change_percent: float | None
    """Against the baseline; given for DRSR, and overall for Structural Pruning."""
    direct_thousands: float | None


class Measurement(NamedTuple):
    """One number of the paper's analyses and of its supervision."""

    value: float
    unit: str


@cache
def eval40() -> tuple[Eval40Row, ...]:
    """Return one row per method and domain, and one for `overall`."""
    return tuple(
        Eval40Row(row["method"], row["domain"], float(row["reward"]), float(row["tokens_millions"]))
        for row in _rows("eval40.csv")
    )


@cache
def eval40_totals() -> tuple[Eval40Total, ...]:
    return tuple(
        Eval40Total(row["method"], float(row["total_millions"]), float(row["per_task_millions"]))
        for row in _rows("eval40_totals.csv")
    )


def eval40_change(method: str) -> float:
    """Return the change of the tokens of all forty tasks against the baseline's, in per cent: not from rounded
    means."""
    totals = {row.method: row.total_millions for row in eval40_totals()}
    return change_percent(totals[method], totals[BASELINE])


@cache
def eval40_ablations() -> tuple[AblationRow, ...]:
    """Return one row per variant and domain, and one for `overall`."""
    numbers = AblationRow._fields[2:]
    return tuple(
        AblationRow(row["variant"], row["domain"], *(float(row[name]) for name in numbers))
        for row in _rows("eval40_ablations.csv")
    )


@cache
def full260() -> tuple[Full260Row, ...]:
    """Return one row per method and domain, and one for `overall`."""
    return tuple(
        Full260Row(
            row["method"],
            row["domain"],
            int(row["tasks"]),
            float(row["reward"]),
            float(row["tokens_millions"]),
            _perhaps(row["change_percent"]),
            _perhaps(row["direct_thousands"]),
        )
        for row in _rows("full260.csv")
    )


class Supervision(NamedTuple):
    """Tables "Offline supervision and benchmark task counts" and "Set-level supervision by deletion cardinality"."""

    trajectories: int
    """Number of external trajectories: none of them is from WorkBuddyBench."""
    states: int
    labels: dict[int, int]
    """Number of labels by the number of Blocks that a set deletes."""


class CalibrationRow(NamedTuple):
    """Table "Validation search space and frozen deployment values"."""

    tried: str
    """Values tried; empty if it is fixed."""
    frozen: float


@cache
def calibration() -> dict[str, CalibrationRow]:
    """Return the rows by the name that we give the value."""
    return {row["item"]: CalibrationRow(row["tried"], float(row["frozen"])) for row in _rows("calibration.csv")}


@cache
def supervision() -> Supervision:
    """Return what the paper's scorer was trained, calibrated and judged on."""
    found = {name: one.value for name, one in analyses().items()}
    labels = {size: int(found[f"supervision.labels_cardinality_{size}"]) for size in (1, 2, 3, 4)}
    return Supervision(int(found["supervision.trajectories"]), int(found["supervision.states"]), labels)


@cache
def analyses() -> dict[str, Measurement]:
    """Return the rows by name: `singleton_aggregation.sum`, `interaction.cardinality_3`, ..."""
    return {row["measurement"]: Measurement(float(row["value"]), row["unit"]) for row in _rows("analyses.csv")}


def _perhaps(text: str) -> float | None:
    return float(text) if text else None


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
