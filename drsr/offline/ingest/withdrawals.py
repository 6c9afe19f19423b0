"""Runs that were taken out: recorded with a reason, and from then on in nothing that is made.

What was made from them before stays as it is, with their states, labels and features: a release can be traced back for
as long as there is a catalog. A run stays withdrawn when it is ingested again, also with newer content. One that is
taken back takes part again, and that it was withdrawn, from when to when and why, stays on record: what was made in
between was made without it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, select, update

from drsr.errors import InputError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.statements import insert_all, storable_text
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory, Withdrawal
from drsr.offline.ingest.feeds.disguises import DisguisedPair
from drsr.offline.ingest.near_duplicates import LeakedPair

ERASED = "erased: "
"""Beginning of the reason of an erased run (`offline/erase.py`). Such a run is neither taken back nor taken in
again."""


class WithdrawnRun(NamedTuple):
    """A run that is taken out, or was for some time."""

    name: str
    """`source/external id`."""
    split: str
    reason: str
    withdrawn_at: datetime.datetime
    states: int
    """Number of its states, of all versions, that stay because something was made from them."""
    taken_back_at: datetime.datetime | None
    """None while it is withdrawn."""

    def to_json(self) -> dict[str, Any]:
        moments = {name: getattr(self, name) for name in ("withdrawn_at", "taken_back_at")}
        return self._asdict() | {name: at and at.isoformat(timespec="seconds") for name, at in moments.items()}


def withdraw(connection: Connection, name: str, reason: str, *, again: bool = False) -> WithdrawnRun:
    """Take a run out, in the caller's write transaction. Raise InputError if it is absent, or already out.

    `again`: one that is out already gets this reason.
    """
    source_id, external_id = _find(connection, name)
    if not reason.strip():
        raise InputError("a run is not withdrawn without a reason", where=name, hint="--reason TEXT")
    already = _in_force(connection, name)
    if already is not None and again:
        mine = (Withdrawal.source_id == source_id, Withdrawal.external_id == external_id)
        before = ledger.withdrawals(connection, external_id)
        connection.execute(update(Withdrawal).where(*mine, _IN_FORCE).values(reason=storable_text(reason.strip())))
        _note(connection, "withdraw", external_id, before)
        return already._replace(reason=reason.strip())
    if already is not None:
        raise InputError(
            f"is withdrawn already: {already.reason}",
            where=name,
            hint=f"to give another reason: drsr withdraw --undo {name}, and withdraw it again",
        )
    now = datetime.datetime.now(datetime.UTC)
    row = {"source_id": source_id, "external_id": external_id, "reason": storable_text(reason.strip())}
    before = ledger.withdrawals(connection, external_id)
    insert_all(connection, Withdrawal, [row | {"withdrawn_at": now}])
    _note(connection, "withdraw", external_id, before)
    found = _in_force(connection, name)
    assert found is not None  # it was just inserted
    return found


def take_back(connection: Connection, name: str) -> WithdrawnRun:
    """Let a withdrawn run take part again, in the caller's write transaction; returns what it was withdrawn for."""
    found = _in_force(connection, name)
    if found is None:
        raise InputError("is not withdrawn", where=name, hint="drsr withdraw --list shows which runs are")
    if found.reason.startswith(ERASED):
        raise InputError("was erased, and is gone", where=name, hint="give it another name, and ingest it again")
    source_id, external_id = _find(connection, name)
    mine = (Withdrawal.source_id == source_id, Withdrawal.external_id == external_id)
    now = datetime.datetime.now(datetime.UTC)
    before = ledger.withdrawals(connection, external_id)
    connection.execute(update(Withdrawal).where(*mine, _IN_FORCE).values(taken_back_at=now))
    _note(connection, "take-back", external_id, before)
    return found._replace(taken_back_at=now)


def _note(connection: Connection, kind: str, external_id: str, before: ledger.Rows) -> None:
    note(connection, kind, {"withdrawal": ledger.changed(before, ledger.withdrawals(connection, external_id))})


def erased_names(connection: Connection) -> frozenset[str]:
    """Return the names of erased runs: they are never taken in again."""
    return frozenset(run.name for run in withdrawn_runs(connection) if run.reason.startswith(ERASED))


def withdrawn_runs(connection: Connection) -> list[WithdrawnRun]:
    """Return the runs that are withdrawn now, by name."""
    return _runs(connection, _IN_FORCE)


def taken_back_runs(connection: Connection) -> list[WithdrawnRun]:
    """Return one entry for every time that a run was withdrawn and taken back, by name; it may be withdrawn again
    now."""
    return _runs(connection, ~_IN_FORCE)


def without_duplicates(pairs: Sequence[LeakedPair | DisguisedPair]) -> dict[str, str]:
    """Choose one run of each pair, with the reason: what is trained on goes before what is judged by."""
    order = ("train", "validation", "test")
    chosen: dict[str, str] = {}
    for pair in pairs:
        if pair.first in chosen or pair.second in chosen:
            continue
        sides = sorted([(pair.first_split, pair.first), (pair.second_split, pair.second)], key=lambda side: side[1])
        (_, out), (split, stays) = sorted(sides, key=lambda side: order.index(side[0]))
        chosen[out] = f"nearly the same as {stays} of {split} ({pair.told})"
    return chosen


_IN_FORCE = Withdrawal.taken_back_at.is_(None)


def _runs(connection: Connection, which: ColumnElement[bool]) -> list[WithdrawnRun]:
    found = [WithdrawnRun(*row) for row in connection.execute(_query().where(which))]
    return sorted(found, key=lambda run: (run.name, run.withdrawn_at))


def _in_force(connection: Connection, name: str) -> WithdrawnRun | None:
    row = connection.execute(_query().where(_IN_FORCE, _NAME.in_([storable_text(name)]))).first()
    return None if row is None else WithdrawnRun(*row)


_NAME: ColumnElement[str] = Source.name.concat("/").concat(Trajectory.external_id)


def _find(connection: Connection, name: str) -> tuple[int, str]:
    query = select(Trajectory.source_id, Trajectory.external_id).join(Source, Source.id == Trajectory.source_id)
    found = connection.execute(query.where(_NAME.in_([storable_text(name)])).distinct()).all()
    if not found:
        raise InputError("no run is called that", where=name, hint="SOURCE/ID, as the rules and the audit name runs")
    source_id, external_id = found[0]
    return source_id, external_id


def _query() -> Select[tuple[str, str, str, datetime.datetime, int, datetime.datetime | None]]:
    """One row per withdrawal. All versions of a run are of one split."""
    joined = (Withdrawal.source_id == Trajectory.source_id) & (Withdrawal.external_id == Trajectory.external_id)
    when = (Withdrawal.withdrawn_at, func.count(DecisionState.id), Withdrawal.taken_back_at)
    return (
        select(_NAME, Trajectory.split, Withdrawal.reason, *when)
        .select_from(Withdrawal)
        .join(Trajectory, joined)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(DecisionState, DecisionState.trajectory_id == Trajectory.id)
        .group_by(Withdrawal.id, Source.name, Trajectory.external_id, Trajectory.split)
    )
