"""The tables of measuring: labelers, labels, exclusions, and the claims of workers."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from drsr.offline.catalog.tables import JOURNAL, PHYSICAL, Hash, Table, not_negative, one_of

OUTCOMES = ("labelled", "excluded")
DIAGNOSIS_ONLY = {"diagnosis_only": True}
"""Marks what explains labels and is neither a label nor a feature."""


class Labeler(Table):
    """One row per named way of measuring harm. Labels of two labelers are never mixed."""

    __tablename__ = "labeler"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    backbone: Mapped[str]
    """Name of the language model that scores."""
    backbone_identity: Mapped[str] = mapped_column(Hash)
    """SHA-256 over its weights, settings and tokenizer."""
    dtype: Mapped[str] = mapped_column(String(16))
    renderer_version: Mapped[str]
    rule_hash: Mapped[str] = mapped_column(Hash)
    """Of the frozen states it measures."""
    target_cap: Mapped[int]
    """The longest recorded output it measures, in tokens."""
    harm_tolerance: Mapped[float]
    """A set is unsafe when its harm exceeds it, in nats per token."""
    method: Mapped[str | None] = mapped_column(String(16), info=PHYSICAL)
    """In half precision the one way in which it computes, as each of its measurements says too. None in float32, where
    all ways agree."""
    noise_floor: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True), info=PHYSICAL)
    """The part of a harm that is rounding, measured before the first label. None: not measured."""


class StateMeasurement(Table):
    """One row per decision state and labeler for which measuring is complete, whether it gave labels or a reason."""

    __tablename__ = "state_measurement"
    __table_args__ = (
        Index(None, "labeler_id"),
        one_of("outcome", OUTCOMES),
        CheckConstraint("(outcome = 'excluded') = (reason IS NOT NULL)", name="reason"),
        CheckConstraint("(outcome = 'labelled') = (intact_nll IS NOT NULL)", name="intact_nll"),
        *not_negative("target_tokens", "context_tokens"),
    )

    state_id: Mapped[int] = mapped_column(ForeignKey("decision_state.id"), primary_key=True)
    labeler_id: Mapped[int] = mapped_column(ForeignKey("labeler.id"), primary_key=True)
    outcome: Mapped[str] = mapped_column(String(8))
    reason: Mapped[str | None]
    """Reason for the exclusion: a short fixed word."""
    detail: Mapped[str | None]
    intact_nll: Mapped[float | None]
    """Mean NLL of the next output's tokens with the whole history, in nats."""
    target_tokens: Mapped[int]
    target_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 of the next output's token ids: the same under every deletion set."""
    context_tokens: Mapped[int]
    """Tokens of the intact view."""
    code_version: Mapped[str] = mapped_column(info=PHYSICAL)
    method: Mapped[str] = mapped_column(info=PHYSICAL)
    """Way of computing: `shared_prefix` or `direct`. The numbers agree to 1e-5."""
    measured_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class Label(Table):
    """One row per measured deletion set of a state and labeler: exact joint deletion harm."""

    __tablename__ = "label"
    __table_args__ = (
        ForeignKeyConstraint(
            ["state_id", "labeler_id"], ["state_measurement.state_id", "state_measurement.labeler_id"]
        ),
        CheckConstraint("mask BETWEEN 1 AND 15", name="mask"),
        CheckConstraint("cardinality BETWEEN 1 AND 4", name="cardinality"),
        CheckConstraint("direct_saving > 0", name="direct_saving"),
    )

    state_id: Mapped[int] = mapped_column(primary_key=True)
    labeler_id: Mapped[int] = mapped_column(primary_key=True)
    mask: Mapped[int] = mapped_column(primary_key=True)
    """Bit i is set when candidate i is deleted."""
    cardinality: Mapped[int]
    direct_saving: Mapped[int]
    """w(A): tokens saved on the full request."""
    deleted_nll: Mapped[float]
    harm: Mapped[float]
    """H(A) = deleted_nll - intact_nll, in nats per token."""
    unsafe: Mapped[bool]
    """Whether the harm exceeds the labeler's tolerance."""


class LabelExclusion(Table):
    """One row per deletion set of a labelled state that could not be measured, with the reason."""

    __tablename__ = "label_exclusion"
    __table_args__ = (
        ForeignKeyConstraint(
            ["state_id", "labeler_id"], ["state_measurement.state_id", "state_measurement.labeler_id"]
        ),
        CheckConstraint("mask BETWEEN 1 AND 15", name="mask"),
    )

    state_id: Mapped[int] = mapped_column(primary_key=True)
    labeler_id: Mapped[int] = mapped_column(primary_key=True)
    mask: Mapped[int] = mapped_column(primary_key=True)
    reason: Mapped[str]
    detail: Mapped[str]


class Interaction(Table):
    """One row per measured deletion set of two or more: what adding up singletons misses. Diagnosis only."""

    __tablename__ = "interaction"
    __table_args__ = (
        ForeignKeyConstraint(["state_id", "labeler_id", "mask"], ["label.state_id", "label.labeler_id", "label.mask"]),
        {"info": DIAGNOSIS_ONLY},
    )

    state_id: Mapped[int] = mapped_column(primary_key=True)
    labeler_id: Mapped[int] = mapped_column(primary_key=True)
    mask: Mapped[int] = mapped_column(primary_key=True)
    residual: Mapped[float]
    """I(A) = H(A) - the sum of its members' harms. For a pair it is J_ij."""


class Claim(Table):
    """One row per item that a worker is at work on. Says who is busy, never what is done."""

    __tablename__ = "claim"
    __table_args__ = ({"info": JOURNAL},)

    stage: Mapped[str] = mapped_column(String(9), primary_key=True)
    item: Mapped[str] = mapped_column(primary_key=True)
    """The item that is worked on, in the stage's own words."""
    worker: Mapped[str]
    """Host with its space of process ids, process and its start: a dead one on the same host is recognised at once."""
    heartbeat_at: Mapped[datetime.datetime]
    """The last sign of life of the worker."""
