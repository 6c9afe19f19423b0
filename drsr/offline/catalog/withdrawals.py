"""Runs that were taken out: recorded with a reason, and from then on in nothing that is made.

What was made from them before stays as it is, with their states, labels and features: a release can be traced back for
as long as there is a catalog. A run stays withdrawn when it is ingested again, also with newer content.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, select

from drsr.errors import InputError
from drsr.offline.catalog.statements import insert_all, storable_text
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory, Withdrawal


class WithdrawnRun(NamedTuple):
    """A run that was taken out."""

    name: str
    """`source/external id`."""
    split: str
    reason: str
    withdrawn_at: datetime.datetime
    states: int
    """How many states of it, of all versions, stay for what was made from them."""


def withdraw(connection: Connection, name: str, reason: str) -> WithdrawnRun:
    """Take a run out, in the caller's write transaction. InputError for one that is not there, or out already."""
    source_id, external_id = _find(connection, name)
    if not reason.strip():
        raise InputError("a run is not withdrawn without a reason", where=name, hint="--reason TEXT")
    already = _withdrawn(connection, name)
    if already:
        raise InputError(
            f"is withdrawn already: {already[0].reason}",
            where=name,
            hint=f"to give another reason: drsr withdraw --undo {name}, and withdraw it again",
        )
    now = datetime.datetime.now(datetime.UTC)
    row = {"source_id": source_id, "external_id": external_id, "reason": storable_text(reason.strip())}
    insert_all(connection, Withdrawal, [row | {"withdrawn_at": now}])
    return _withdrawn(connection, name)[0]


def take_back(connection: Connection, name: str) -> WithdrawnRun:
    """Let a withdrawn run take part again, in the caller's write transaction; returns what it was withdrawn for."""
    found = _withdrawn(connection, name)
    if not found:
        raise InputError("is not withdrawn", where=name, hint="drsr withdraw --list shows which runs are")
    source_id, external_id = _find(connection, name)
    mine = (Withdrawal.source_id == source_id, Withdrawal.external_id == external_id)
    connection.execute(delete(Withdrawal).where(*mine))
    return found[0]


def withdrawn_runs(connection: Connection) -> list[WithdrawnRun]:
    """All of them, by name."""
    return sorted(_run(row) for row in connection.execute(_query()))


def _withdrawn(connection: Connection, name: str) -> list[WithdrawnRun]:
    return [_run(row) for row in connection.execute(_query().where(_NAME.in_([storable_text(name)])))]


_NAME: ColumnElement[str] = Source.name.concat("/").concat(Trajectory.external_id)


def _find(connection: Connection, name: str) -> tuple[int, str]:
    query = select(Trajectory.source_id, Trajectory.external_id).join(Source, Source.id == Trajectory.source_id)
    found = connection.execute(query.where(_NAME.in_([storable_text(name)])).distinct()).all()
    if not found:
        raise InputError("no run is called that", where=name, hint="SOURCE/ID, as the rules and the audit name runs")
    source_id, external_id = found[0]
    return source_id, external_id


def _query() -> Select[tuple[str, str, str, datetime.datetime, int]]:
    """One row per withdrawn run. All versions of a run are of one split."""
    joined = (Withdrawal.source_id == Trajectory.source_id) & (Withdrawal.external_id == Trajectory.external_id)
    return (
        select(_NAME, Trajectory.split, Withdrawal.reason, Withdrawal.withdrawn_at, func.count(DecisionState.id))
        .select_from(Withdrawal)
        .join(Trajectory, joined)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .group_by(Source.name, Trajectory.external_id, Trajectory.split, Withdrawal.reason, Withdrawal.withdrawn_at)
    )


def _run(row: Row[tuple[str, str, str, datetime.datetime, int]]) -> WithdrawnRun:
    return WithdrawnRun(*row)
