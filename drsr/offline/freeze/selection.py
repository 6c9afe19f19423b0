"""Choose the part of the states that a stage works on: one source, one split, some days, one shard."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, func, select
from sqlalchemy.orm import InstrumentedAttribute

from drsr.errors import InputError, SettingsError
from drsr.offline.catalog.tables import SPLITS, DecisionState, FrozenTrajectory, Source, Trajectory
from drsr.offline.freeze.records import FreezingRule, is_current_state, is_rule


class Shard(NamedTuple):
    """One of several disjoint parts of the trajectories. A trajectory is always in the same part."""

    number: int
    """From 0."""
    of: int


class Selection(NamedTuple):
    """The part of the states that a stage works on."""

    source: str | None = None
    split: str | None = None
    since: datetime.date | None = None
    """Only trajectories that came into the catalog on this day (UTC) or later."""
    until: datetime.date | None = None
    """Only trajectories that came into the catalog on this day or earlier."""
    shard: Shard | None = None
    without_texts: bool = False
    """Also runs that were imported without their texts: for what reads no text."""

    @classmethod
    def parsed(cls, source: str | None, where: Sequence[str]) -> Selection:
        """Parse the options of a command line: `--source NAME --where split=train`."""
        split = None
        for condition in where:
            column, equals, value = condition.partition("=")
            if not equals or column != "split" or value not in SPLITS:
                raise SettingsError(
                    f"--where {condition!r} is not understood",
                    hint=f"split=NAME, where NAME is one of {', '.join(SPLITS)}",
                )
            split = value
        return cls(source, split)


def waiting_states(
    columns: Sequence[Any],
    freezing: FreezingRule,
    part: Selection,
    of: InstrumentedAttribute[int],
    number: int | None,
) -> Select[Any]:
    """Return frozen states of current trajectories without a row of a table of results whose column `of` is `number`.

    No row has the number None: all frozen states wait.
    """
    results = of.class_
    query = (
        select(*columns)
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(results, and_(results.state_id == DecisionState.id, of == (-1 if number is None else number)))
        .where(results.state_id.is_(None), is_current_state(freezing))
    )
    return selected(query, part)


def unfrozen_trajectories(columns: Sequence[Any], freezing: FreezingRule, part: Selection) -> Select[Any]:
    """Return current trajectories that were not frozen under this rule and tokenizer yet."""
    marker = and_(FrozenTrajectory.trajectory_id == Trajectory.id, is_rule(FrozenTrajectory, freezing))
    query = (
        select(*columns)
        .select_from(Trajectory)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(FrozenTrajectory, marker)
        .where(FrozenTrajectory.id.is_(None), Trajectory.is_current())
    )
    return selected(query, part)


def count_to_freeze(connection: Connection, freezing: FreezingRule, part: Selection) -> int:
    """Count trajectories of a part whose states are not known yet."""
    count: int = connection.execute(unfrozen_trajectories([func.count()], freezing, part)).scalar_one()
    return count


def require_frozen(connection: Connection, freezing: FreezingRule, part: Selection) -> None:
    """Raise InputError if trajectories wait and none of the part is frozen: a later stage was started first."""
    waiting = count_to_freeze(connection, freezing, part)
    everything = selected(
        select(func.count())
        .select_from(Trajectory)
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current()),
        part,
    )
    if waiting and waiting == connection.execute(everything).scalar_one():
        raise InputError(f"{waiting:,} trajectories wait, and none is frozen yet", hint="drsr freeze, then again")


def selected(query: Select[Any], part: Selection) -> Select[Any]:
    """Return a query over trajectories and their sources, narrowed to a part of them."""
    if not part.without_texts:
        query = query.where(Trajectory.has_text())
    if part.source is not None:
        query = query.where(Source.name == part.source)
    if part.split is not None:
        query = query.where(Trajectory.split == part.split)
    if part.since is not None:
        query = query.where(Trajectory.created_at >= _midnight(part.since))
    if part.until is not None:
        query = query.where(Trajectory.created_at < _midnight(part.until + datetime.timedelta(days=1)))
    if part.shard is not None:
        query = query.where(Trajectory.id % part.shard.of == part.shard.number)
    return query


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
