"""Rows of the catalog as a frame, with only the columns that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from sqlalchemy import Connection, Select

from drsr.offline.catalog.tables import Source, Trajectory

TRAJECTORY: tuple[Any, ...] = (Source.name.label("source"), Trajectory.external_id.label("external_id"))
"""Columns that `with_trajectory` makes a trajectory's name of."""


def read_frame(connection: Connection, query: Select[Any]) -> pd.DataFrame:
    """Return one column per selected one, under its label; without rows, too. Moments are UTC, and do not say so."""
    found = connection.execute(query)
    names = list(found.keys())
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    return pd.DataFrame({name: _series(values) for name, values in zip(names, columns, strict=True)})


def with_trajectory(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with `source/external id` as the trajectory's name, the way people know it."""
    name = frame["source"].astype("str") + "/" + frame["external_id"].astype("str")
    frame.insert(0, "trajectory", name)
    return frame.drop(columns=["source", "external_id"])


def _series(values: Sequence[Any]) -> pd.Series:
    series = pd.Series(list(values))
    # The library compares moments as numpy arrays, which have no time zone.
    return series.dt.tz_convert(None) if isinstance(series.dtype, pd.DatetimeTZDtype) else series
