"""The order in which trajectories are labelled: domains evenly, in each a first run of every task before a second.

Labels are expensive, and labelling may end early: what is there then is balanced over domains and has many tasks,
because a policy learns more from a new task than from another run of a known one. Among equals the shortest comes
first. The order decides nothing else, for every trajectory is measured on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

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
    """Return the first waiting trajectory after a place, for `Claims.items`. `without` may grow.

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
    columns = [DecisionState.id, DecisionState.trajectory_id, *_RUN_COLUMNS]
    pending = pending_states([*columns, Candidate.token_spans], freezing, labeler_id, part)
    named: dict[int, tuple[str, str]] = {}
    reach: Counter[tuple[int, int]] = Counter()
    for state, number, *names, spans in connection.execute(
        pending.join(Candidate, Candidate.state_id == DecisionState.id)
    ):
        named[number] = _domain_and_task(*names)
        reach[number, state] = max(reach[number, state], spans[-1][1])
    lengths: Counter[int] = Counter()
    for (number, _), stop in reach.items():
        lengths[number] += stop
    waiting = [Waiting(*named[number], length, number) for number, length in lengths.items()]
    return evenly(waiting, _measured_runs(connection, labeler_id))


_RUN_COLUMNS = (Trajectory.domain, Trajectory.group_key, Trajectory.task)


def _domain_and_task(domain: str | None, group: str, task: str | None) -> tuple[str, str]:
    return domain or "", task or group


def _measured_runs(connection: Connection, labeler_id: int) -> list[tuple[str, str]]:
    """Domain and task of every trajectory that this labeler has measured."""
    statement = (
        select(Trajectory.id, *_RUN_COLUMNS)
        .join(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .join(StateMeasurement, StateMeasurement.state_id == DecisionState.id)
        .where(StateMeasurement.labeler_id == labeler_id)
        .distinct()
    )
    return [_domain_and_task(*names) for _, *names in connection.execute(statement)]


class Waiting(NamedTuple):
    """A trajectory that waits to be labelled."""

    domain: str
    task: str
    length: int
    number: int


def evenly(waiting: Iterable[Waiting], measured: Sequence[tuple[str, str]]) -> list[int]:
    """Order trajectories so that domains become even, counting the domain and task of what was `measured` before."""
    of_task, of_domain = Counter(task for _, task in measured), Counter(domain for domain, _ in measured)
    rounds = []
    for run in sorted(waiting, key=attrgetter("length", "number")):
        rounds.append((of_task[run.task], run))
        of_task[run.task] += 1
    places = []
    for _, run in sorted(rounds, key=lambda found: (found[0], found[1].length, found[1].number)):
        places.append((of_domain[run.domain], run.length, run.number))
        of_domain[run.domain] += 1
    return [number for _, _, number in sorted(places)]
