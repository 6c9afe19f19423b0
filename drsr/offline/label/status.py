"""The status of each labeler: measured states and deletion sets, exclusions, and what waits."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, func, select

from drsr.offline.catalog.label_tables import Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze.records import FreezingRule, is_current_state

DEFAULT = "default"
"""The labeler that is shown even before it has measured anything."""


class LabelStatus(NamedTuple):
    """States of current trajectories under this rule and tokenizer, by what a labeler made of them."""

    labeler: str
    labelled: int
    excluded: int
    """Cannot be measured, for a reason that is recorded."""
    waiting: int
    sets: int
    """Deletion sets with a label."""
    excluded_sets: int
    """Deletion sets of labelled states that could not be measured."""
    why_excluded: dict[str, int]
    """Excluded states by reason."""
    why_excluded_sets: dict[str, int]
    """Excluded sets by reason."""
    stale: int
    """States it measured of superseded trajectories, or under another rule, renderer or tokenizer."""
    noise_floor: dict[str, Any] | None = None
    """Part of its harms that is rounding; None if that was not measured."""


def label_status(connection: Connection, rule: FreezingRule) -> list[LabelStatus]:
    """Return one status for each labeler, `default` first."""
    is_current = is_current_state(rule)
    query = select(func.count()).select_from(DecisionState).join(Trajectory).where(is_current)
    states: int = connection.execute(query).scalar_one()
    current = case((is_current, 1), else_=0)
    labelled: dict[int, int] = defaultdict(int)
    stale: dict[int, int] = defaultdict(int)
    states_without: dict[int, dict[str, int]] = defaultdict(dict)
    columns = (StateMeasurement.outcome, StateMeasurement.reason, current)
    for labeler, outcome, reason, is_fresh, count in _counts(connection, StateMeasurement, *columns):
        if not is_fresh:
            stale[labeler] += count
        elif outcome == "labelled":
            labelled[labeler] += count
        else:
            states_without[labeler][reason] = count
    sets = {labeler: count for labeler, is_fresh, count in _counts(connection, Label, current) if is_fresh}
    sets_without: dict[int, dict[str, int]] = defaultdict(dict)
    for labeler, reason, is_fresh, count in _counts(connection, LabelExclusion, LabelExclusion.reason, current):
        if is_fresh:
            sets_without[labeler][reason] = count
    found = []
    floors = dict(connection.execute(select(Labeler.id, Labeler.noise_floor)).tuples().all())
    for number, name in _labelers(connection):
        excluded = sum(states_without[number].values())
        found.append(
            LabelStatus(
                labeler=name,
                labelled=labelled[number],
                excluded=excluded,
                waiting=states - labelled[number] - excluded,
                sets=sets.get(number, 0),
                excluded_sets=sum(sets_without[number].values()),
                why_excluded=dict(sorted(states_without[number].items())),
                why_excluded_sets=dict(sorted(sets_without[number].items())),
                stale=stale[number],
                noise_floor=floors.get(number),
            )
        )
    return found


def _labelers(connection: Connection) -> list[tuple[int, str]]:
    rows = {name: number for number, name in connection.execute(select(Labeler.id, Labeler.name))}
    others = sorted(name for name in rows if name != DEFAULT)
    return [(rows.get(DEFAULT, -1), DEFAULT), *((rows[name], name) for name in others)]


def _counts(connection: Connection, table: Any, *columns: Any) -> list[Any]:
    """Rows of a table of measurements: the labeler, some columns, and how many rows have these."""
    query = (
        select(table.labeler_id, *columns, func.count())
        .select_from(table)
        .join(DecisionState, DecisionState.id == table.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .group_by(table.labeler_id, *columns)
    )
    return list(connection.execute(query).all())
