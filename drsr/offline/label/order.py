"""The order in which trajectories are labelled: all sources and domains side by side, of each its shortest first.

Labels are expensive, and labelling may end early: what is there then is balanced over them and has as many
states as the time allowed. The order decides nothing else, for every trajectory is measured on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam

from drsr.offline.catalog.tables import Candidate, DecisionState, Trajectory
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import ITEM_COLUMNS, TrajectoryItem
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.shared_work import Following
from drsr.offline.label.records import pending_states

Kind = tuple[int, str]
"""Source and domain of a trajectory: one source may hold several kinds of work."""


def shortest_first(
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
    columns = [DecisionState.id, DecisionState.trajectory_id, Trajectory.source_id, Trajectory.domain]
    pending = pending_states([*columns, Candidate.token_spans], freezing, labeler_id, part)
    kinds: dict[int, Kind] = {}
    reach: Counter[tuple[int, int]] = Counter()
    for state, number, source, domain, spans in connection.execute(
        pending.join(Candidate, Candidate.state_id == DecisionState.id)
    ):
        kinds[number] = source, domain or ""
        reach[number, state] = max(reach[number, state], spans[-1][1])
    lengths: Counter[int] = Counter()
    for (number, _), stop in reach.items():
        lengths[number] += stop
    return in_turn([(kinds[number], length, number) for number, length in lengths.items()])


def in_turn(trajectories: Sequence[tuple[Kind, int, int]]) -> list[int]:
    """Order `(kind, length, number)`: the shortest of a kind first, and all kinds equally far through their lengths."""
    totals: Counter[Kind] = Counter()
    for kind, length, _ in trajectories:
        totals[kind] += length
    spent: Counter[Kind] = Counter()
    ranked = []
    for kind, length, number in sorted(trajectories):
        spent[kind] += length
        ranked.append((spent[kind] / totals[kind], number))
    return [number for _, number in sorted(ranked)]
