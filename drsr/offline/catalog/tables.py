"""The tables of the catalog. Every docstring starts with the grain: what one row is.

Column.info["physical"] and Table.info["journal"] mark what depends on when and where a stage ran and not on what it
found: two catalogs with the same contents may differ there. Table.info["evaluation_only"] marks what no stage before
evaluation may read.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ColumnElement,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    and_,
    exists,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from drsr.offline.stages import NAMES

SPLITS = ("train", "validation", "test")
PROTOCOLS = ("openai", "anthropic")
BLOCK_KINDS = ("assistant_state", "tool_exchange")
STATE_STATUSES = ("frozen", "excluded")

PHYSICAL = {"physical": True}
JOURNAL = {"journal": True}
EVALUATION_ONLY = {"evaluation_only": True}


class UtcDateTime(TypeDecorator[datetime.datetime]):
    """A moment in UTC on both databases; SQLite itself would forget the time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime.datetime | None, dialect: Dialect) -> datetime.datetime | None:
        return None if value is None else value.astimezone(datetime.UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime.datetime | None:
        if value is None:
            return None
        moment: datetime.datetime = value
        return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)


class Table(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {
        datetime.datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[Any]: JSON,
        str: Text,
    }


def one_of(column: str, values: Sequence[str]) -> CheckConstraint:
    """Return the constraint that a column is an enumeration."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def not_negative(*columns: str) -> list[CheckConstraint]:
    """Return the constraints that columns are counts."""
    return [CheckConstraint(f"{column} >= 0", name=column) for column in columns]


Hash = String(64)
"""A SHA-256 in hexadecimal digits."""


class Source(Table):
    """One row per named origin of trajectories; external ids are unique within it."""

    __tablename__ = "source"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class SourceFile(Table):
    """One row per file and source it was read for, with what the latest complete read found."""

    __tablename__ = "source_file"
    __table_args__ = (
        UniqueConstraint("location", "source_id"),
        *not_negative("trajectories", "quarantined"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    location: Mapped[str]
    """Location, without credentials."""
    stamp: Mapped[str | None] = mapped_column(info=PHYSICAL)
    """Readers and fingerprint of the latest read: a file with the same stamp is not read again. Null: not read
    to its end, or not to be trusted."""
    trajectories: Mapped[int]
    """The number of trajectories in it."""
    quarantined: Mapped[int]
    """The number of things in it that could not be read, or were refused."""
    read_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class SplitGroup(Table):
    """One row per group of trajectories that must stay on one side of the split, assigned when first seen."""

    __tablename__ = "split_group"
    __table_args__ = (UniqueConstraint("group_key", "split"), one_of("split", SPLITS))

    group_key: Mapped[str] = mapped_column(primary_key=True)
    """`task:<task>` where the task is known, or what a corpus says several tasks are about; else
    `trajectory:<source>/<external id>`."""
    split: Mapped[str] = mapped_column(String(10))


class Withdrawal(Table):
    """One row per time that a run, with all its versions, was taken out of everything. Kept when it is taken back."""

    __tablename__ = "withdrawal"
    __table_args__ = (
        Index(
            "uq_withdrawal_in_force",
            "source_id",
            "external_id",
            unique=True,
            sqlite_where=text("taken_back_at IS NULL"),
            postgresql_where=text("taken_back_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    external_id: Mapped[str]
    reason: Mapped[str]
    """Reason, in somebody's own words."""
    withdrawn_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)
    taken_back_at: Mapped[datetime.datetime | None]
    """Moment at which it was let in again; null while it is in force. Being in force is a fact, so this is not
    physical."""


class Trajectory(Table):
    """One row per distinct content of a recorded run. The row whose `superseded_by` is null is the current one."""

    __tablename__ = "trajectory"
    __table_args__ = (
        UniqueConstraint("source_id", "external_id", "content_hash"),
        UniqueConstraint("source_id", "external_id", "version"),
        Index(
            "uq_trajectory_current",
            "source_id",
            "external_id",
            unique=True,
            sqlite_where=text("superseded_by IS NULL"),
            postgresql_where=text("superseded_by IS NULL"),
        ),
        # Deferred: the old version must stop being current before the new one may be inserted as current.
        ForeignKeyConstraint(
            ["source_id", "external_id", "superseded_by"],
            ["trajectory.source_id", "trajectory.external_id", "trajectory.version"],
            deferrable=True,
            initially="DEFERRED",
        ),
        # The database itself keeps every trajectory of a group in the group's split.
        ForeignKeyConstraint(["group_key", "split"], ["split_group.group_key", "split_group.split"]),
        Index(None, "content_hash"),
        one_of("protocol", PROTOCOLS),
        CheckConstraint("version >= 1", name="version"),
        CheckConstraint("superseded_by <> version", name="superseded_by"),
        *not_negative("messages", "assistant_messages", "tool_calls"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    external_id: Mapped[str]
    """The source's name for this run."""
    version: Mapped[int]
    """1 for the first content seen under this external id, 2 for the next new one, ..."""
    superseded_by: Mapped[int | None]
    """The version that took its place. Null while current, and again after the run reverted to this content."""
    content_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the canonical bytes."""
    blob: Mapped[str] = mapped_column(info=PHYSICAL)
    """Key of the canonical bytes in the artifact store, where nothing lies while the run is only imported."""
    protocol: Mapped[str] = mapped_column(String(9))
    reader: Mapped[str]
    """The reader that made it, with its version."""
    task: Mapped[str | None]
    domain: Mapped[str | None]
    group_key: Mapped[str]
    split: Mapped[str] = mapped_column(String(10))
    messages: Mapped[int]
    """Messages of the whole run."""
    assistant_messages: Mapped[int]
    """Messages of the agent: each is the next output of one decision."""
    tool_calls: Mapped[int]
    created_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)

    @classmethod
    def is_current(cls) -> ColumnElement[bool]:
        """Return whether a row takes part in what is made now: nothing took its place, and its run is not withdrawn."""
        return and_(cls.superseded_by.is_(None), ~cls.is_withdrawn())

    @classmethod
    def is_withdrawn(cls) -> ColumnElement[bool]:
        """Return whether a row's run is taken out now."""
        mine = (Withdrawal.source_id == cls.source_id, Withdrawal.external_id == cls.external_id)
        return exists().where(*mine, Withdrawal.taken_back_at.is_(None))

    @classmethod
    def has_text(cls) -> ColumnElement[bool]:
        """Return whether a row's run was read here. Of a run that was only imported, nothing but its hash is known.

        A run whose stored bytes were lost has been read, and its loss is damage: it is not passed over.
        """
        return exists().where(TrajectoryFile.trajectory_id == cls.id)


class TrajectoryFile(Table):
    """One row per trajectory version and file that holds it or once held it."""

    __tablename__ = "trajectory_file"

    trajectory_id: Mapped[int] = mapped_column(ForeignKey("trajectory.id"), primary_key=True)
    source_file_id: Mapped[int] = mapped_column(ForeignKey("source_file.id"), primary_key=True)


class TrajectoryReward(Table):
    """One row per trajectory version whose run was scored by its own benchmark. Evaluation only: never a feature."""

    __tablename__ = "trajectory_reward"
    __table_args__ = {"info": EVALUATION_ONLY}

    trajectory_id: Mapped[int] = mapped_column(ForeignKey("trajectory.id"), primary_key=True)
    reward: Mapped[float]


class QuarantinedItem(Table):
    """One row per thing that the latest read of a file could not read or did not take, with the reason."""

    __tablename__ = "quarantined_item"
    __table_args__ = (UniqueConstraint("source_file_id", "location", "reason"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    source_file_id: Mapped[int] = mapped_column(ForeignKey("source_file.id"))
    location: Mapped[str]
    """File, and inside it the member, line or run. Never holds credentials."""
    reason: Mapped[str]
    """A short fixed word for counting."""
    detail: Mapped[str]
    """Finding, and what to do about it."""


class FrozenTrajectory(Table):
    """One row per trajectory version, rule and tokenizer whose freezing is complete, also where it gave no state."""

    __tablename__ = "frozen_trajectory"
    __table_args__ = (
        UniqueConstraint(
            "trajectory_id", "rule_hash", "renderer_version", "tokenizer_identity", name="uq_frozen_trajectory_identity"
        ),
        *not_negative("eligible_decisions"),
        CheckConstraint("(eligible_decisions = 0) = (why_none IS NOT NULL)", name="why_none"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trajectory_id: Mapped[int] = mapped_column(ForeignKey("trajectory.id"))
    rule_version: Mapped[str]
    rule_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 over the rule's version and parameters (context cap, Recent2, bins)."""
    renderer_version: Mapped[str]
    tokenizer_identity: Mapped[str] = mapped_column(Hash)
    eligible_decisions: Mapped[int]
    """Decisions with three or four candidates; at most three of them become states."""
    why_none: Mapped[str | None]
    """Reason why no decision is eligible; null if one is."""
    frozen_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class DecisionState(Table):
    """One row per decision of a trajectory version whose candidates are frozen under one rule and tokenizer."""

    __tablename__ = "decision_state"
    __table_args__ = (
        UniqueConstraint(
            "trajectory_id",
            "decision_index",
            "rule_hash",
            "renderer_version",
            "tokenizer_identity",
            name="uq_decision_state_identity",
        ),
        one_of("status", STATE_STATUSES),
        CheckConstraint("decision_index >= 1", name="decision_index"),
        CheckConstraint("ordinal >= 0", name="ordinal"),
        CheckConstraint("quantile > 0 AND quantile <= 1", name="quantile"),
        CheckConstraint("candidates BETWEEN 3 AND 4", name="candidates"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trajectory_id: Mapped[int] = mapped_column(ForeignKey("trajectory.id"))
    decision_index: Mapped[int]
    """Index of the assistant message that is the next output; the request ends before it."""
    ordinal: Mapped[int]
    """Its place among the trajectory's eligible decisions, from 0."""
    quantile: Mapped[float]
    """The quantile of the eligible decisions that chose it: 1/3, 2/3 or 1."""
    rule_version: Mapped[str]
    rule_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 over the rule's version and parameters (context cap, Recent2, bins)."""
    renderer_version: Mapped[str]
    tokenizer_identity: Mapped[str] = mapped_column(Hash)
    request_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the exact request before the decision."""
    state_key: Mapped[str] = mapped_column(Hash, unique=True)
    """SHA-256 over everything that made the state: what later stages name it by."""
    candidates: Mapped[int]
    """Number of its candidates, 3 or 4."""
    status: Mapped[str] = mapped_column(String(8))
    """`frozen`, or `excluded` when a later stage found that it can never be labelled."""
    frozen_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class Candidate(Table):
    """One row per frozen candidate Block of a decision state."""

    __tablename__ = "candidate"
    __table_args__ = (
        UniqueConstraint("state_id", "step_index", "component_index"),
        one_of("kind", BLOCK_KINDS),
        CheckConstraint("position BETWEEN 0 AND 3", name="position"),
        CheckConstraint("direct_saving > 0", name="direct_saving"),
        *not_negative("step_index", "component_index"),
    )

    state_id: Mapped[int] = mapped_column(ForeignKey("decision_state.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    """0 to 3, chronological: the bit of a deletion set's mask."""
    step_index: Mapped[int]
    kind: Mapped[str] = mapped_column(String(15))
    component_index: Mapped[int]
    """0 is the assistant_state, 1.. the calls in order."""
    direct_saving: Mapped[int]
    """Tokens saved on the full request by deleting it alone."""
    token_spans: Mapped[list[Any]]
    """[[start, stop], ...] in the rendering of the full request."""
    text_hash: Mapped[str] = mapped_column(Hash)


class Execution(Table):
    """One row per started run of a stage. `finished_at` is null if it never finished."""

    __tablename__ = "run"
    __table_args__ = (Index(None, "started_at"), one_of("stage", NAMES), {"info": JOURNAL})

    id: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str] = mapped_column(String(9))
    subject: Mapped[str | None]
    """Subject of the work, such as the ingested URI without credentials."""
    code_version: Mapped[str]
    started_at: Mapped[datetime.datetime]
    finished_at: Mapped[datetime.datetime | None]
    counts: Mapped[dict[str, Any] | None]
    """Summary of its work, written at the end; until then its worker (`runs.py`)."""
