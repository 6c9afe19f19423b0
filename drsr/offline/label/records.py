"""Labels in the catalog: which states still need measuring under a labeler, and writing down what was measured."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, delete, or_, select, update

import drsr
from drsr.backbone.catalogue import identity_of
from drsr.errors import SettingsError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.label_tables import Interaction, Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import insert_new, storable_text
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.selection import Selection, selected, waiting_states
from drsr.offline.freeze.states import rule_hash
from drsr.offline.label.harm import HARM_TOLERANCE, StateHarms, interactions
from drsr.request.contracts import TokenIds
from drsr.request.rendering import RENDERER_VERSION
from drsr.request.view import Caps


class LabelerIdentity(NamedTuple):
    """Everything that a label's number depends on besides its state."""

    backbone: str
    """Its name when the labeler was first used. A name only, such as a folder that another machine has elsewhere: what
    counts is the identity."""
    backbone_identity: str
    dtype: str
    renderer_version: str
    rule_hash: str
    target_cap: int
    harm_tolerance: float = HARM_TOLERANCE
    method: str | None = None
    """In half precision the way of computing, whose rounding is part of every number. None in float32, where all ways
    agree, and while it is not settled yet."""

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts by name. The method is included only where it counts, so that labelers in float32 keep their
        identity."""
        return {name: value for name, value in self._asdict().items() if name != "method" or value is not None}


def configured_identity(backbone: str, dtype: str, caps: Caps) -> LabelerIdentity:
    """Return how labels are measured with the language model of this name; quick, its weights are not loaded."""
    return LabelerIdentity(backbone, identity_of(backbone), dtype, RENDERER_VERSION, rule_hash(caps), caps.target)


class MeasuredState(NamedTuple):
    """The result for one state."""

    state_id: int
    target: TokenIds
    context_tokens: int
    result: StateHarms | Exclusion
    method: str


def find_labeler(connection: Connection, name: str, identity: LabelerIdentity) -> int | None:
    """Return the id of the labeler of this name, or None.

    One that measures otherwise than `identity` is refused: labels of two language models must not be mixed.
    """
    found = recorded_identity(connection, name)
    if found is None:
        return None
    labeler_id, recorded = found
    for field, there, here in zip(LabelerIdentity._fields, recorded, identity, strict=True):
        unsettled = field == "method" and here is None
        if there != here and field != "backbone" and not unsettled:
            raise SettingsError(
                f"labeler {name!r} measures with {field} {there!r}, these settings with {here!r}",
                hint="go back to its settings, or name a new labeler: drsr label --labeler NAME",
            )
    return labeler_id


def recorded_floor(connection: Connection, name: str) -> dict[str, Any] | None:
    """Return the noise floor of the labeler of this name, None where it was not measured."""
    found: dict[str, Any] | None = connection.execute(select(Labeler.noise_floor).where(Labeler.name == name)).scalar()
    return found


def record_floor(connection: Connection, labeler_id: int, floor: dict[str, Any]) -> None:
    """Write down a labeler's noise floor unless it has one: what was measured first was there before the labels."""
    lacking = Labeler.noise_floor.is_(None)
    connection.execute(update(Labeler).where(Labeler.id == labeler_id, lacking).values(noise_floor=floor))


def labeler_named(connection: Connection, name: str) -> int | None:
    """Return the id of the labeler of this name, however it measures."""
    found: int | None = connection.execute(select(Labeler.id).where(Labeler.name == name)).scalar()
    return found


def recorded_identity(connection: Connection, name: str) -> tuple[int, LabelerIdentity] | None:
    """Return the id of the labeler of this name and how it measures, or None."""
    columns = [getattr(Labeler, field) for field in LabelerIdentity._fields]
    row = connection.execute(select(Labeler.id, *columns).where(Labeler.name == name)).one_or_none()
    return None if row is None else (row[0], LabelerIdentity(*row[1:]))


def ensure_labeler(connection: Connection, name: str, identity: LabelerIdentity) -> int:
    """Return the id of the labeler of this name, created when it is new."""
    insert_new(connection, Labeler, [{"name": name, **identity._asdict()}])
    found = find_labeler(connection, name, identity)
    assert found is not None  # it was inserted by this transaction or before it
    return found


def pending_states(
    columns: Sequence[Any], freezing: FreezingRule, labeler_id: int | None, part: Selection
) -> Select[Any]:
    """Return frozen states of current trajectories without a measurement by this labeler."""
    return waiting_states(columns, freezing, part, StateMeasurement.labeler_id, labeler_id)


MEASUREMENT_COLUMNS = (
    *("outcome", "reason", "detail", "intact_nll", "target_tokens", "target_hash", "context_tokens"),
    *("method", "code_version"),
)


class Measurement(NamedTuple):
    """Everything that was measured at one state, as it is recorded and exported. The rest is derived from it."""

    state_id: int
    facts: dict[str, Any]
    """`MEASUREMENT_COLUMNS`."""
    labels: Sequence[tuple[int, int, float]]
    """Mask, direct saving and NLL of every set that was measured."""
    excluded: Sequence[tuple[int, str, str]]
    """Mask of every set that was not, with reason and detail."""


def record_measurements(connection: Connection, labeler_id: int, measured: Sequence[MeasuredState]) -> None:
    """Record the outcome of some states, in the caller's write transaction. Repeating it changes nothing."""
    write_measurements(connection, labeler_id, [_measurement(item) for item in measured])
    ids = [one.state_id for one in measured]
    note(connection, "label", {"measurement": ledger.measurements(connection, labeler_id, ids)})


def write_measurements(connection: Connection, labeler_id: int, measurements: Sequence[Measurement]) -> None:
    """Write measurements with the harms that follow from them, inside the caller's write transaction."""
    now = datetime.datetime.now(datetime.UTC)
    tables = (StateMeasurement, Label, LabelExclusion, Interaction)
    rows: tuple[list[dict[str, Any]], ...] = ([], [], [], [])
    states, labels, exclusions, residuals = rows
    for state_id, facts, measured, excluded in measurements:
        key = {"state_id": state_id, "labeler_id": labeler_id}
        states.append(key | facts | {"measured_at": now})
        harms = {mask: nll - facts["intact_nll"] for mask, _, nll in measured}
        for mask, saving, nll in measured:
            numbers = {"mask": mask, "cardinality": mask.bit_count(), "direct_saving": saving, "deleted_nll": nll}
            labels.append(key | numbers | {"harm": harms[mask], "unsafe": harms[mask] > HARM_TOLERANCE})
        exclusions += [key | {"mask": mask, "reason": reason, "detail": detail} for mask, reason, detail in excluded]
        residuals += [key | {"mask": mask, "residual": residual} for mask, residual in interactions(harms).items()]
    for table, new in zip(tables, rows, strict=True):
        insert_new(connection, table, new)


def target_hash(target: TokenIds) -> str:
    """Return the SHA-256 of the next output's token ids."""
    return hashlib.sha256(target.astype("<i4").tobytes()).hexdigest()


def _measurement(item: MeasuredState) -> Measurement:
    facts = {
        **dict.fromkeys(MEASUREMENT_COLUMNS),
        "target_tokens": len(item.target),
        "target_hash": target_hash(item.target),
        "context_tokens": item.context_tokens,
        "method": item.method,
        "code_version": drsr.__version__,
    }
    result = item.result
    if isinstance(result, Exclusion):
        facts |= {"outcome": "excluded", "reason": result.reason, "detail": storable_text(result.detail)}
        return Measurement(item.state_id, facts, (), ())
    facts |= {"outcome": "labelled", "intact_nll": result.intact_nll}
    sets = [(harm.deletion_set.mask, harm.deletion_set.direct_saving, harm.deleted_nll) for harm in result.harms]
    excluded = [(mask, why.reason, storable_text(why.detail)) for mask, why in result.excluded.items()]
    return Measurement(item.state_id, facts, sets, excluded)


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
        gone = ledger.measurements(connection, labeler_id, some)
        note(connection, "forget", {"measurement": dict.fromkeys(gone)}, reason=reason)
        for table in (Interaction, Label, LabelExclusion, StateMeasurement):
            connection.execute(delete(table).where(table.labeler_id == labeler_id, table.state_id.in_(some)))
    return len(states)
