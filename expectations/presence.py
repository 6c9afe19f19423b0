"""Datasets that hold anything yet. This asks the catalog alone, and needs neither frames nor the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from drsr.offline.catalog.feature_tables import FeatureView
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun
from drsr.offline.catalog.tables import DecisionState, Table, Trajectory

if TYPE_CHECKING:
    from drsr.offline.catalog.engine import Catalog

_MADE_OF: dict[str, type[Table]] = {
    "trajectories": Trajectory,
    "states": DecisionState,
    "labels": StateMeasurement,
    "features": FeatureView,
    "splits": Trajectory,
    "calibration": CalibrationRun,
    "policy": PolicyRelease,
}


def holds_any(dataset: str, catalog: Catalog) -> bool:
    """Return whether there is anything of a dataset yet."""
    table = _MADE_OF[dataset].__table__
    with catalog.reading() as connection:
        return connection.execute(select(1).select_from(table).limit(1)).first() is not None
