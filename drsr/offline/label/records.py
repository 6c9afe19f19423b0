"""Labels in the catalog: which states still need measuring under a labeler, and writing down what was measured."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, func, select

import drsr
from drsr.backbone.catalogue import identity_of
from drsr.errors import InputError, SettingsError
from drsr.offline.catalog.label_tables import Interaction, Label, Labeler, LabelExclusion, StateMeasurement
from drsr.offline.catalog.statements import insert_new, storable_text
from drsr.offline.catalog.tables import SPLITS, DecisionState, FrozenTrajectory, Source, Trajectory
from drsr.offline.freeze.records import FreezingRule, is_rule
from drsr.offline.freeze.states import rule_hash
from drsr.offline.label.harm import HARM_TOLERANCE, Exclusion, StateHarms
from drsr.offline.label.interactions import interactions
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
    """How labels are measured with the language model of this name; quick, its weights are not loaded."""
    return LabelerIdentity(backbone, identity_of(backbone), dtype, RENDERER_VERSION, rule_hash(caps), caps.target)


class Shard(NamedTuple):
    """One of several parts of the trajectories that have none in common. The same trajectory is always in the same."""

    number: int
    """From 0."""
    of: int


class Selection(NamedTuple):
    """Which part of the states a run works on."""

    source: str | None = None
    split: str | None = None
    since: datetime.date | None = None
    """Only trajectories that came into the catalog on this day (UTC) or later."""
    until: datetime.date | None = None
    """Only trajectories that came into the catalog on this day or earlier."""
    shard: Shard | None = None

    @classmethod
    def parsed(cls, source: str | None, where: Sequence[str]) -> Selection:
        """From a command line: `--source NAME --where split=train`."""
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


class MeasuredState(NamedTuple):
    """What came of one state."""

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


def unfrozen_trajectories(columns: Sequence[Any], freezing: FreezingRule, part: Selection) -> Select[Any]:
    """Current trajectories that were not frozen under this rule and tokenizer yet."""
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
    """Trajectories of a part whose states are not known yet."""
    count: int = connection.execute(unfrozen_trajectories([func.count()], freezing, part)).scalar_one()
    return count


def require_frozen(connection: Connection, freezing: FreezingRule, part: Selection) -> None:
    """InputError where trajectories wait and none of the part is frozen: somebody began with a later stage."""
    waiting = count_to_freeze(connection, freezing, part)
    everything = selected(
        select(func.count())
        .select_from(Trajectory)
        .join(Source, Source.id == Trajectory.source_id)
        .where(Trajectory.is_current()),
        part,
    )
    if waiting and waiting == connection.execute(everything).scalar_one():
        raise InputError(
            f"{waiting:,} trajectories wait, and none of them is frozen yet", hint="drsr freeze, then again"
        )


def selected(query: Select[Any], part: Selection) -> Select[Any]:
    """A query over trajectories and their sources, narrowed to a part of them."""
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
