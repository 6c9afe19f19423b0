"""Runs whose every file is gone from where it was read: they still take part in training until somebody decides."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import select

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import Source, SourceFile, Trajectory, TrajectoryFile
from drsr.offline.store.presence import absent


class GoneRun(NamedTuple):
    """A current run, and where it was read."""

    run: str
    split: str
    location: str
    """The first, if there are several."""


def gone_runs(catalog: Catalog) -> list[GoneRun]:
    """Look for the file of every current run that was read here. A run is gone when none of its files is left."""
    query = (
        select(Source.name, Trajectory.external_id, Trajectory.split, SourceFile.location)
        .select_from(Trajectory)
        .join(Source, Source.id == Trajectory.source_id)
        .join(TrajectoryFile, TrajectoryFile.trajectory_id == Trajectory.id)
        .join(SourceFile, SourceFile.id == TrajectoryFile.source_file_id)
        .where(Trajectory.is_current())
        .order_by(Source.name, Trajectory.external_id, SourceFile.location)
    )
    places: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with catalog.reading() as connection:
        for source, external_id, split, location in connection.execute(query):
            places[f"{source}/{external_id}", split].append(location)
    missing = absent(location for locations in places.values() for location in locations)
    return [GoneRun(*key, locations[0]) for key, locations in places.items() if missing.issuperset(locations)]
