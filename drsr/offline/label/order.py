"""The order in which trajectories are labelled: a first run of every task before a second, the shortest first.

Labels are expensive, and labelling may end early: what is there then has as many tasks as the time allowed, because
a policy learns more from a new task than from another run of a known one. The order decides nothing else, for every
trajectory is measured on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter

from sqlalchemy import Connection, bindparam, select

from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.tables import Candidate, DecisionState, Trajectory
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import ITEM_COLUMNS, TrajectoryItem
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.shared_work import Following
from drsr.offline.label.records import pending_states


def labelling_order(
    freezing: FreezingRule, labeler_id: int, part: Selection, claimed_as: str, without: Collection[int]
) -> Following:
    """Give the first trajectory behind a place that still waits, for `Claims.items`. `without` may grow.

    The order is made at the start of every pass, so that a pass sees what came in during the one before.
    """
    order: list[int] = []
    # Put together once: composing a statement takes longer than answering it, and every item asks.
    pending = pending_states(ITEM_COLUMNS, freezing, labeler_id, part)
    waiting = pending.where(Trajectory.id == bindparam("number")).limit(1)

    def following(connection: Connection, cursor: int) -> TrajectoryItem | None:
        if cursor == 0:
            order[:] = _order(connection, freezing, labeler_id, part)
        for place in range(cursor, len(order)):
            row = None if order[place] in without else connection.execute(waiting, {"number": order[place]}).first()
            if row is not None:
                return TrajectoryItem(row.id, row.blob, row.split, f"{claimed_as}/{row.id}", place + 1)
        return None

    return following


def _order(connection: Connection, freezing: FreezingRule, labeler_id: int, part: Selection) -> list[int]:
    """A trajectory's length is how far its states reach together: to the end of the last candidate of each."""
    columns = [DecisionState.id, DecisionState.trajectory_id, Trajectory.group_key, Trajectory.task]
    pending = pending_states([*columns, Candidate.token_spans], freezing, labeler_id, part)
    tasks: dict[int, str] = {}
    reach: Counter[tuple[int, int]] = Counter()
    for state, number, group, task, spans in connection.execute(
        pending.join(Candidate, Candidate.state_id == DecisionState.id)
    ):
        tasks[number] = task or group
        reach[number, state] = max(reach[number, state], spans[-1][1])
    lengths: Counter[int] = Counter()
    for (number, _), stop in reach.items():
        lengths[number] += stop
    return new_tasks_first(
        [(tasks[number], length, number) for number, length in lengths.items()], _measured_runs(connection, labeler_id)
    )


def _measured_runs(connection: Connection, labeler_id: int) -> Counter[str]:
    """Count the trajectories of each task that this labeler has measured."""
    statement = (
        select(Trajectory.id, Trajectory.group_key, Trajectory.task)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .where(StateMeasurement.labeler_id == labeler_id)
        .distinct()
    )
    return Counter(task or group for _, group, task in connection.execute(statement))


def new_tasks_first(trajectories: Iterable[tuple[str, int, int]], measured: Mapping[str, int]) -> list[int]:
    """Order `(task, length, number)`: tasks with the fewest runs before them come first, of these the shortest run."""
    before = Counter(measured)
    ranked = []
    for task, length, number in sorted(trajectories, key=itemgetter(1, 2)):
        ranked.append((before[task], length, number))
        before[task] += 1
    return [number for _, _, number in sorted(ranked)]
