"""The files of a calibration for its readers: search table, operating curve and beta sensitivity, as CSV and plots.

Numbers in CSV are written so that reading them gives the same bits; empty is "not a number": nothing was selected.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drsr.errors import SettingsError
from drsr.offline.calibrate.certificates import CertifiedCalibration
from drsr.offline.calibrate.operating_curve import OperatingCurve, operating_curve, uncertainty_sensitivity
from drsr.offline.calibrate.search import Calibration, OperatingPoint, SearchTable
from drsr.offline.params import CalibrateParams

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEARCH_COLUMNS = (
    "max_cardinality",
    "uncertainty_coefficient",
    "risk_threshold",
    "states",
    "selected",
    "unsafe",
    "harm_units",
    "removal_units",
    "unsafe_rate",
    "mean_harm",
    "mean_removal",
    "admissible",
)
BALANCED_COLUMNS = ("balanced_selected", "balanced_unsafe")
"""Only in the table of a search that weighs sources."""
CERTIFIED_COLUMNS = ("unsafe_bound", "certified")
"""Columns only in the table of a certified search, where `admissible` says what would hold without the certificate."""
_INTEGERS = ("selected", "unsafe", "harm_units", "removal_units")
_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b5ea7")
_MARKER_SIZES = (9, 6, 4, 2)
"""The first largest: where two curves are the same, both are seen."""


def search_table_csv(found: Calibration | CertifiedCalibration, params: CalibrateParams) -> bytes:
    """Return every policy that was tried, one line each."""
    certified = found if isinstance(found, CertifiedCalibration) else None
    table = found.calibration.table if isinstance(found, CertifiedCalibration) else found.table
    columns = [
        table.max_cardinality,
        table.uncertainty_coefficient,
        table.risk_threshold,
        np.full(len(table), table.states),
        *(getattr(table, name) for name in _INTEGERS),
        table.unsafe_rate,
        table.mean_harm,
        table.mean_removal,
        table.admissible(params.max_unsafe_rate, params.max_mean_harm),
    ]
    names: tuple[str, ...] = SEARCH_COLUMNS
    if params.source_balance:
        names = (*names, *BALANCED_COLUMNS)
        columns += [getattr(table, name) for name in BALANCED_COLUMNS]
    if certified is not None:
        names = (*names, *CERTIFIED_COLUMNS)
        columns.append(np.array([policy.unsafe_bound for policy in certified.tried]))
        columns.append(np.array([policy.certified for policy in certified.tried], dtype=np.bool_))
    return _csv(names, zip(*(column.tolist() for column in columns), strict=True))


def read_search_table(data: bytes) -> SearchTable:
    """Return the table of a search, from what `search_table_csv` wrote."""
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"))))
    weighed = BALANCED_COLUMNS if rows and BALANCED_COLUMNS[0] in rows[0] else ("selected", "unsafe")
    return SearchTable(
        int(rows[0]["states"]) if rows else 0,
        np.array([int(row["max_cardinality"]) for row in rows], dtype=np.int64),
        np.array([float(row["uncertainty_coefficient"]) for row in rows]),
        np.array([float(row["risk_threshold"]) for row in rows]),
        *(np.array([int(row[name]) for row in rows], dtype=np.int64) for name in (*_INTEGERS, *weighed)),
    )


def write_files(folder: Path, table: SearchTable, chosen: OperatingPoint | None, params: CalibrateParams) -> list[Path]:
    """Write curve and sensitivity of a plain search into a folder, as data and as plots; returns the files."""
    coefficient = chosen.uncertainty_coefficient if chosen is not None else float(min(params.uncertainty_coefficients))
    curves = {k: operating_curve(table, k, coefficient) for k in params.max_cardinalities}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            _write(folder / "operating_curve.csv", _curve_csv(curves, coefficient)),
            _write(folder / "beta_sensitivity.csv", _sensitivity_csv(table, params)),
            _write(folder / "operating_curve.png", _png(_curve_plot(curves, coefficient, chosen, params))),
            _write(folder / "beta_sensitivity.png", _png(_sensitivity_plot(table, chosen, params))),
        ]
    except OSError as error:
        raise SettingsError(f"cannot be written to: {error.strerror}", where=str(folder)) from None


def _curve_csv(curves: dict[int, OperatingCurve], coefficient: float) -> bytes:
    names = ("max_cardinality", "uncertainty_coefficient", *OperatingCurve._fields)
    rows = (
        (k, coefficient, *row)
        for k, curve in curves.items()
        for row in zip(*(column.tolist() for column in curve), strict=True)
    )
    return _csv(names, rows)


def _sensitivity_csv(table: SearchTable, params: CalibrateParams) -> bytes:
    names = ("max_cardinality", "uncertainty_coefficient", *OperatingPoint._fields[2:])
    nothing = (None,) * len(OperatingPoint._fields[2:])
    rows = (
        (row.max_cardinality, row.uncertainty_coefficient, *(nothing if row.best is None else row.best[2:]))
        for row in uncertainty_sensitivity(table, params)
    )
    return _csv(names, rows)


def _curve_plot(
    curves: dict[int, OperatingCurve], coefficient: float, chosen: OperatingPoint | None, params: CalibrateParams
) -> Figure:
    figure, axes = _figure(2, f"Operating curve on validation, beta = {coefficient:g}")
    upper, lower = axes
    for (k, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        upper.plot(curve.risk_threshold, curve.unsafe_rate, color=colour, label=f"K = {k}", drawstyle="steps-post")
        lower.plot(curve.risk_threshold, 100 * curve.mean_removal, color=colour, drawstyle="steps-post")
    upper.axhline(params.max_unsafe_rate, color="0.4", linestyle="--", label="largest allowed")
    if chosen is not None:
        mark: dict[str, Any] = {"marker": "o", "color": "black", "linestyle": "none"}
        upper.plot([chosen.risk_threshold], [chosen.unsafe_rate], label="chosen", **mark)
        lower.plot([chosen.risk_threshold], [100 * chosen.mean_removal], **mark)
    upper.set_ylabel("unsafe rate among selected sets")
    upper.set_ylim(bottom=0)
    lower.set_ylabel("mean removal, % of request")
    lower.set_xlabel("risk threshold tau")
    upper.legend(frameon=False)
    return figure


def _sensitivity_plot(table: SearchTable, chosen: OperatingPoint | None, params: CalibrateParams) -> Figure:
    figure, (axis,) = _figure(1, "Best admissible policy by uncertainty coefficient, on validation")
    rows = uncertainty_sensitivity(table, params)
    for k, colour, size in zip(params.max_cardinalities, _COLOURS, _MARKER_SIZES, strict=False):
        of_k = [row for row in rows if row.max_cardinality == k]
        removal = [math.nan if row.best is None else 100 * row.best.mean_removal for row in of_k]
        betas = [row.uncertainty_coefficient for row in of_k]
        axis.plot(betas, removal, marker="o", markersize=size, color=colour, label=f"K = {k}")
        never = [beta for beta, row in zip(betas, of_k, strict=True) if row.best is None]
        if never:
            zeros = [0.0] * len(never)
            cross: dict[str, Any] = {"marker": "x", "markersize": size, "linestyle": "none"}
            axis.plot(never, zeros, color=colour, label=f"K = {k}: none admissible", **cross)
    if chosen is not None:
        place = ([chosen.uncertainty_coefficient], [100 * chosen.mean_removal])
        ring: dict[str, Any] = {"marker": "o", "markersize": 14, "markerfacecolor": "none", "linestyle": "none"}
        axis.plot(*place, color="black", label="chosen", **ring)
    most = max((row.best.mean_removal for row in rows if row.best is not None), default=0.01)
    axis.set_ylim(0, 115 * most)
    axis.set_xlabel("uncertainty coefficient beta")
    axis.set_ylabel("mean removal, % of request")
    axis.legend(frameon=False)
    return figure


def _figure(rows: int, title: str) -> tuple[Figure, Sequence[Axes]]:
    """Without pyplot, which keeps every figure alive and asks for a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.6 * rows + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_title(title, loc="left", fontsize=11)
    return figure, list(axes)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return buffer.getvalue().encode("utf-8")


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return value
