"""The tables that every dataset is read from, and a hash of all that they hold.

A verdict on the same rows, the same stored objects (which rows name by their hash) and the same rules comes out the
same. So a night that judged a dataset after its stage need not judge it again before publishing, while not a byte of it
has changed. What a verdict depends on is listed here, and a test compares with what the frames really read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson
from sqlalchemy import select

from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, SplitRead, StateFeatures
from drsr.offline.catalog.label_tables import Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.tables import (
    Candidate,
    DecisionState,
    FrozenTrajectory,
    Source,
    SourceFile,
    SplitGroup,
    Table,
    Trajectory,
    TrajectoryFile,
    Withdrawal,
)
from drsr.offline.ingest.corpus.task_names import all_task_names
from drsr.offline.ingest.feeds.limits import load_limits

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog

Tables = tuple[type[Table], ...]
_RUNS: Tables = (Source, Trajectory, Withdrawal)
_STATES: Tables = (*_RUNS, DecisionState, Candidate)
_LABELS: Tables = (Labeler, StateMeasurement, Label)

READ_FROM: dict[str, Tables] = {
    "trajectories": (*_RUNS, TrajectoryFile, SourceFile),
    "states": (*_STATES, FrozenTrajectory, TrajectoryFile),
    "labels": (*_STATES, *_LABELS, LabelExclusion),
    "features": (*_STATES, *_LABELS, FeatureView, FeatureFile, StateFeatures),
    "splits.trajectories": (*_RUNS, SplitGroup),
    "splits.subjects": (*_RUNS, TrajectoryFile),
    "splits.shares": (SplitGroup,),
    "splits.places": (*_RUNS, DecisionState, Label, FeatureFile, StateFeatures),
    "splits.reads": (SplitRead,),
    "splits.fits": (SplitRead, TrainingRun, CalibrationRun),
    "calibration": (TrainingRun, CalibrationRun),
    "policy": (*_RUNS, DecisionState, Labeler, TrainingRun, CalibrationRun, PolicyRelease),
}
"""By dataset, or by the part of a dataset that is judged separately."""
_MADE_OF: dict[str, type[Table]] = {
    "trajectories": Trajectory,
    "states": DecisionState,
    "labels": StateMeasurement,
    "features": FeatureView,
    "splits": Trajectory,
    "calibration": CalibrationRun,
    "policy": PolicyRelease,
}
_ROWS_AT_ONCE = 10_000


class Fingerprints:
    """Hashes of tables, each computed once: of one moment in the life of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._of: dict[str, str] = {}

    def of(self, dataset: str) -> str:
        """Return the SHA-256 over every row of the tables that a dataset is read from, and of the corpora's tables."""
        tables = READ_FROM[dataset]
        with self._catalog.reading() as connection:
            for table in tables:
                if table.__tablename__ not in self._of:
                    self._of[table.__tablename__] = _hash_of(connection, table)
        found = [[table.__tablename__, self._of[table.__tablename__]] for table in tables]
        if dataset == "splits.shares":
            found.append(["corpora", hashlib.sha256(orjson.dumps(all_task_names().stamp)).hexdigest()])
        if dataset in ("trajectories", "states"):
            found.append(["limits of sources", repr(sorted(load_limits().items()))])
        return hashlib.sha256(orjson.dumps(found)).hexdigest()


def _hash_of(connection: Connection, table: type[Table]) -> str:
    """SHA-256 over all rows as the driver hands them out, in the order of their keys.

    SQLAlchemy would take longer to hand them out than it takes to hash them; `repr` tells all numbers apart.
    """
    digest = hashlib.sha256()
    keys = ", ".join(column.name for column in table.__table__.primary_key)
    cursor = connection.exec_driver_sql(f"SELECT * FROM {table.__tablename__} ORDER BY {keys}").cursor
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        digest.update(repr(rows).encode())
    return digest.hexdigest()


def holds_any(dataset: str, catalog: Catalog) -> bool:
    """Return whether there is anything of a dataset yet."""
    table = _MADE_OF[dataset].__table__
    with catalog.reading() as connection:
        return connection.execute(select(1).select_from(table).limit(1)).first() is not None
