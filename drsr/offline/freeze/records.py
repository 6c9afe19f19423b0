"""Frozen states and candidates: what is still to be frozen, and recording it once."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from drsr.errors import InputError
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.catalog.statements import insert_new
from drsr.offline.catalog.tables import Candidate, DecisionState, FrozenTrajectory, Source, Trajectory


class FreezingRule(NamedTuple):
    """Everything but the trajectory that decides what freezing gives."""

    rule_version: str
    rule_hash: str
    renderer_version: str
    tokenizer_identity: str


class UnfrozenTrajectory(NamedTuple):
    """A current trajectory that was not frozen under a rule yet."""

    id: int
    source: str
    external_id: str
    content_hash: str
    blob: str


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A state to be recorded: columns of `decision_state` and of its candidates."""

    decision_index: int
    ordinal: int
    quantile: float
    request_hash: str
    candidates: Sequence[dict[str, Any]]
    """In order of position: step_index, kind, component_index, direct_saving, token_spans, text_hash."""


def require_source(connection: Connection, name: str | None) -> None:
    """Raise InputError if there is no source of this name; None means all of them."""
    known = connection.execute(select(Source.name).order_by(Source.name)).scalars().all()
    if name is not None and name not in known:
        hint = f"the sources are {', '.join(known)}" if known else "there is none yet: drsr ingest URI"
        raise InputError(f"no source is called {name!r}", hint=hint)


def unfrozen(
    connection: Connection,
    rule: FreezingRule,
    source: str | None = None,
    after: int = 0,
    limit: int = 500,
    until: int | None = None,
) -> list[UnfrozenTrajectory]:
    """Return the next current trajectories without a marker for this rule, by row number, after number `after` and up
    to `until`."""
    columns = (Trajectory.id, Source.name, Trajectory.external_id, Trajectory.content_hash, Trajectory.blob)
    query = _without_marker(select(*columns), rule, source).where(Trajectory.id > after)
    if until is not None:
        query = query.where(Trajectory.id <= until)
    return [UnfrozenTrajectory(*row) for row in connection.execute(query.order_by(Trajectory.id).limit(limit))]


def count_unfrozen(connection: Connection, rule: FreezingRule, source: str | None = None) -> int:
    """Count current trajectories without a marker for this rule."""
    count: int = connection.execute(_without_marker(select(func.count()), rule, source)).scalar_one()
    return count


def count_current(connection: Connection, source: str | None = None) -> int:
    """Count current trajectories."""
    count: int = connection.execute(_current(select(func.count()), source)).scalar_one()
    return count


def is_rule(table: type[FrozenTrajectory] | type[DecisionState], rule: FreezingRule) -> ColumnElement[bool]:
    """Return the rows of a table that were made under a rule."""
    return and_(
        table.rule_hash == rule.rule_hash,
        table.renderer_version == rule.renderer_version,
        table.tokenizer_identity == rule.tokenizer_identity,
    )


def is_current_state(rule: FreezingRule) -> ColumnElement[bool]:
    """Return the states that count under a rule: frozen, of current trajectories. The query joins states and
    trajectories."""
    return and_(Trajectory.is_current(), DecisionState.status == "frozen", is_rule(DecisionState, rule))


def _current(query: Select[Any], source: str | None) -> Select[Any]:
    query = query.select_from(Trajectory).join(Source, Trajectory.source_id == Source.id)
    query = query.where(Trajectory.is_current())
    return query if source is None else query.where(Source.name == source)


def _without_marker(query: Select[Any], rule: FreezingRule, source: str | None) -> Select[Any]:
    marker = and_(FrozenTrajectory.trajectory_id == Trajectory.id, is_rule(FrozenTrajectory, rule))
    waiting = _current(query, source).outerjoin(FrozenTrajectory, marker)
    return waiting.where(FrozenTrajectory.id.is_(None), Trajectory.has_text())


def state_key(trajectory: UnfrozenTrajectory, decision_index: int, rule: FreezingRule) -> str:
    """Return the SHA-256 over everything that makes a state: later stages refer to it by this, and it never recurs for
    another."""
    identity = [trajectory.source, trajectory.content_hash, decision_index, *rule]
    return content_key(identity)


def record_frozen(
    connection: Connection,
    rule: FreezingRule,
    trajectory: UnfrozenTrajectory,
    eligible_decisions: int,
    why_none: str | None,
    states: Sequence[StateRecord],
) -> None:
    """Record what freezing found in a trajectory, in the caller's write transaction. A second time changes nothing."""
    now = datetime.datetime.now(datetime.UTC)
    shared = {"trajectory_id": trajectory.id, **rule._asdict(), "frozen_at": now}
    keys = [state_key(trajectory, state.decision_index, rule) for state in states]
    rows = [
        {
            **shared,
            "decision_index": state.decision_index,
            "ordinal": state.ordinal,
            "quantile": state.quantile,
            "request_hash": state.request_hash,
            "state_key": key,
            "candidates": len(state.candidates),
            "status": "frozen",
        }
        for key, state in zip(keys, states, strict=True)
    ]
    insert_new(connection, DecisionState, rows)
    query = select(DecisionState.state_key, DecisionState.id).where(DecisionState.state_key.in_(keys))
    state_ids = dict(connection.execute(query).tuples().all())
    candidates = [
        {"state_id": state_ids[key], "position": position, **candidate}
        for key, state in zip(keys, states, strict=True)
        for position, candidate in enumerate(state.candidates)
    ]
    insert_new(connection, Candidate, candidates)
    marker = {**shared, "eligible_decisions": eligible_decisions, "why_none": why_none}
    insert_new(connection, FrozenTrajectory, [marker])
