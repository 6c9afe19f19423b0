"""States that were excluded for a reason that has gone: forgotten, so that the label stage measures them again.

What did not fit into memory may fit with a larger `label_memory_mb`, or when nobody else uses the device. Nothing is
tried again unasked: a nightly run would pay for the same failures every night.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, or_, select

from drsr.offline.catalog.label_tables import Interaction, Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.freeze.selection import Selection, selected

_AT_ONCE = 500
"""States whose rows are deleted by one statement: databases limit the parameters of one."""


def forget_excluded(connection: Connection, labeler_id: int, reason: str, part: Selection) -> int:
    """Forget what a labeler measured of the states that it excluded for a reason, or of which it excluded a set.

    Inside the caller's write transaction; returns how many states wait again.
    """
    sets = select(LabelExclusion.state_id).where(
        LabelExclusion.labeler_id == labeler_id, LabelExclusion.reason == reason
    )
    query = (
        select(StateMeasurement.state_id)
        .join(DecisionState, DecisionState.id == StateMeasurement.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateMeasurement.labeler_id == labeler_id)
        .where(or_(StateMeasurement.reason == reason, StateMeasurement.state_id.in_(sets)))
    )
    states = connection.execute(selected(query, part)).scalars().all()
    for start in range(0, len(states), _AT_ONCE):
        some = states[start : start + _AT_ONCE]
        for table in (Interaction, Label, LabelExclusion, StateMeasurement):
            connection.execute(delete(table).where(table.labeler_id == labeler_id, table.state_id.in_(some)))
    return len(states)
