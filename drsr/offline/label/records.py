"""Labels in the catalog: which states still need measuring under a labeler, and writing down what was measured."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, delete, or_, select

import drsr
from drsr.backbone.catalogue import identity_of
from drsr.errors import SettingsError
from drsr.offline.catalog.label_tables import Interaction, Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import insert_new, storable_text
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.freeze.selection import Selection, selected
from drsr.offline.freeze.states import rule_hash
from drsr.offline.label.harm import HARM_TOLERANCE, Exclusion, StateHarms, interactions
from drsr.request.contracts import TokenIds
from drsr.request.rendering import RENDERER_VERSION
from drsr.request.view import Caps


class LabelerIdentity(NamedTuple):
    """All that a label's number depends on besides its state."""

    backbone: str
    """Its name when the labeler was first used. A name only, such as a folder that another machine has elsewhere: what
    counts is the identity."""
    backbone_identity: str
    dtype: str
    renderer_version: str
    rule_hash: str
    target_cap: int
    harm_tolerance: float = HARM_TOLERANCE


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
    """The id of the labeler of this name, None where there is none yet.

    One that measures otherwise than `identity` is refused: labels of two language models must not be mixed.
    """
    found = recorded_identity(connection, name)
    if found is None:
        return None
    labeler_id, recorded = found
    for field, there, here in zip(LabelerIdentity._fields, recorded, identity, strict=True):
        if there != here and field != "backbone":
            raise SettingsError(
                f"labeler {name!r} measures with {field} {there!r}, these settings with {here!r}",
                hint="go back to its settings, or name a new labeler: drsr label --labeler NAME",
            )
    return labeler_id


def labeler_named(connection: Connection, name: str) -> int | None:
    """The id of the labeler of this name, however it measures."""
    found: int | None = connection.execute(select(Labeler.id).where(Labeler.name == name)).scalar()
    return found


def recorded_identity(connection: Connection, name: str) -> tuple[int, LabelerIdentity] | None:
    """The id of the labeler of this name and how it measures; None where there is none."""
    columns = [getattr(Labeler, field) for field in LabelerIdentity._fields]
    row = connection.execute(select(Labeler.id, *columns).where(Labeler.name == name)).one_or_none()
    return None if row is None else (row[0], LabelerIdentity(*row[1:]))


def ensure_labeler(connection: Connection, name: str, identity: LabelerIdentity) -> int:
    """The id of the labeler of this name, created when it is new."""
    insert_new(connection, Labeler, [{"name": name, **identity._asdict()}])
    found = find_labeler(connection, name, identity)
    assert found is not None  # it was inserted by this transaction or before it
    return found


def pending_states(
    columns: Sequence[Any], freezing: FreezingRule, labeler_id: int | None, part: Selection
) -> Select[Any]:
    """Frozen states of current trajectories without a measurement by this labeler."""
    query = (
        select(*columns)
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .outerjoin(
            StateMeasurement,
            and_(
                StateMeasurement.state_id == DecisionState.id,
                StateMeasurement.labeler_id == (-1 if labeler_id is None else labeler_id),
            ),
        )
        .where(
            StateMeasurement.state_id.is_(None),
            Trajectory.is_current(),
            DecisionState.status == "frozen",
            is_rule(DecisionState, freezing),
        )
    )
    return selected(query, part)


def record_measurements(connection: Connection, labeler_id: int, measured: Sequence[MeasuredState]) -> None:
    """Write down what came of some states, inside the caller's write transaction. Repeating it changes nothing."""
    states: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    exclusions: list[dict[str, Any]] = []
    residuals: list[dict[str, Any]] = []
    for item in measured:
        key = {"state_id": item.state_id, "labeler_id": labeler_id}
        states.append(key | _measurement(item))
        if isinstance(item.result, Exclusion):
            continue
        for harm in item.result.harms:
            found = harm.deletion_set
            numbers = {
                "mask": found.mask,
                "cardinality": len(found.members),
                "direct_saving": found.direct_saving,
                "deleted_nll": harm.deleted_nll,
                "harm": harm.harm,
                "unsafe": harm.unsafe,
            }
            labels.append(key | numbers)
        for mask, excluded in item.result.excluded.items():
            exclusions.append(key | {"mask": mask, "reason": excluded.reason, "detail": storable_text(excluded.detail)})
        harms = {harm.deletion_set.mask: harm.harm for harm in item.result.harms}
        residuals += [key | {"mask": mask, "residual": residual} for mask, residual in interactions(harms).items()]
    insert_new(connection, StateMeasurement, states)
    insert_new(connection, Label, labels)
    insert_new(connection, LabelExclusion, exclusions)
    insert_new(connection, Interaction, residuals)


def target_hash(target: TokenIds) -> str:
    """SHA-256 of the next output's token ids."""
    return hashlib.sha256(target.astype("<i4").tobytes()).hexdigest()


def _measurement(item: MeasuredState) -> dict[str, Any]:
    excluded = item.result if isinstance(item.result, Exclusion) else None
    return {
        "outcome": "labelled" if excluded is None else "excluded",
        "reason": None if excluded is None else excluded.reason,
        "detail": None if excluded is None else storable_text(excluded.detail),
        "intact_nll": None if isinstance(item.result, Exclusion) else item.result.intact_nll,
        "target_tokens": len(item.target),
        "target_hash": target_hash(item.target),
        "context_tokens": item.context_tokens,
        "code_version": drsr.__version__,
        "method": item.method,
        "measured_at": datetime.datetime.now(datetime.UTC),
    }


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
