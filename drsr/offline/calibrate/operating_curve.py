"""The trade-off of removal and safety: the calibration's search table as curves, for plots and tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.calibrate.search import OperatingPoint, SearchTable, operating_point
from drsr.offline.params import CalibrateParams

Floats = NDArray[np.float64]


class OperatingCurve(NamedTuple):
    """One (K, beta) by rising risk threshold: equally long arrays."""

    risk_threshold: Floats
    coverage: Floats
    """Part of the validation states that are pruned."""
    unsafe_rate: Floats
    """Unsafe share of the selected sets; NaN if nothing is selected."""
    mean_harm: Floats
    mean_removal: Floats


class Sensitivity(NamedTuple):
    """The best result of one (K, beta); None if none of its thresholds is admissible."""

    max_cardinality: int
    uncertainty_coefficient: float
    best: OperatingPoint | None


def operating_curve(table: SearchTable, max_cardinality: int, uncertainty_coefficient: float) -> OperatingCurve:
    """Return the rows of one (K, beta)."""
    part = table.rows(_of(table, max_cardinality, uncertainty_coefficient))
    order = np.argsort(part.risk_threshold, kind="stable")
    columns = (part.risk_threshold, part.coverage, part.unsafe_rate, part.mean_harm, part.mean_removal)
    return OperatingCurve(*(column[order] for column in columns))


def uncertainty_sensitivity(table: SearchTable, params: CalibrateParams) -> list[Sensitivity]:
    """Return the best result for each K and beta."""
    preferred = table.preference()
    preferred = preferred[table.admissible(params.max_unsafe_rate, params.max_mean_harm)[preferred]]
    found = []
    for cardinality in np.unique(table.max_cardinality):
        for coefficient in np.unique(table.uncertainty_coefficient):
            rows = preferred[_of(table, int(cardinality), float(coefficient))[preferred]]
            best = operating_point(table, int(rows[0])) if len(rows) else None
            found.append(Sensitivity(int(cardinality), float(coefficient), best))
    return found


def _of(table: SearchTable, max_cardinality: int, uncertainty_coefficient: float) -> NDArray[np.bool_]:
    rows: NDArray[np.bool_] = table.max_cardinality == max_cardinality
    rows &= table.uncertainty_coefficient == uncertainty_coefficient
    return rows
