"""The tables of featurizing: views, files, the features of each state, and who read which split."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from drsr.offline.catalog.tables import JOURNAL, PHYSICAL, SPLITS, Hash, Table, not_negative, one_of

OUTCOMES = ("stored", "excluded")
PURPOSES = ("train", "calibrate", "evaluate", "describe")
"""Purposes for which rows of a split are read. `describe` reads features alone, and gives statistics of columns."""


class FeatureView(Table):
    """One row per version of a named feature view: its columns, and how they are computed. Never changed."""

    __tablename__ = "feature_view"
    __table_args__ = (
        UniqueConstraint("name", "version"),
        CheckConstraint("version >= 1", name="version"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[int]
    """1, 2, ...: the next when the same backbone gives other columns, or states are rendered or frozen otherwise."""
    layout_hash: Mapped[str] = mapped_column(Hash)
    columns: Mapped[list[Any]]
    """[[name, group, unit, information class], ...] in order. Every information class is `online`."""
    backbone: Mapped[str]
    """Name of the language model that is read."""
    backbone_identity: Mapped[str] = mapped_column(Hash)
    """SHA-256 over its weights, settings and tokenizer."""
    dtype: Mapped[str] = mapped_column(String(16))
    rule_version: Mapped[str]
    rule_hash: Mapped[str] = mapped_column(Hash)
    """Of the frozen states that it holds."""
    renderer_version: Mapped[str]
    tokenizer_identity: Mapped[str] = mapped_column(Hash)
    registered_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class FeatureFile(Table):
    """One row per Parquet file of a view; states of one split only. Written after the file, so it is complete."""

    __tablename__ = "feature_file"
    __table_args__ = (
        UniqueConstraint("view_id", "blob"),
        one_of("split", SPLITS),
        *not_negative("states", "rows"),
        {"info": JOURNAL},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    view_id: Mapped[int] = mapped_column(ForeignKey("feature_view.id"))
    split: Mapped[str] = mapped_column(String(10))
    blob: Mapped[str]
    """Key of the file in the artifact store: the SHA-256 of its bytes."""
    states: Mapped[int]
    rows: Mapped[int]
    """One per candidate of a state."""
    written_at: Mapped[datetime.datetime]


class StateFeatures(Table):
    """One row per decision state and view whose features are stored, or cannot be had for a reason that is recorded."""

    __tablename__ = "state_features"
    __table_args__ = (
        Index(None, "view_id"),
        Index(None, "file_id"),
        one_of("outcome", OUTCOMES),
        CheckConstraint("(outcome = 'excluded') = (reason IS NOT NULL)", name="reason"),
        CheckConstraint("(outcome = 'stored') = (file_id IS NOT NULL)", name="file_id"),
        CheckConstraint("request_tokens > 0", name="request_tokens"),
        CheckConstraint("protocol_breaking BETWEEN 0 AND 65535", name="protocol_breaking"),
    )

    state_id: Mapped[int] = mapped_column(ForeignKey("decision_state.id"), primary_key=True)
    view_id: Mapped[int] = mapped_column(ForeignKey("feature_view.id"), primary_key=True)
    outcome: Mapped[str] = mapped_column(String(8))
    reason: Mapped[str | None]
    """Reason for the exclusion: a short fixed word."""
    detail: Mapped[str | None]
    prefix_hash: Mapped[str] = mapped_column(Hash)
    """SHA-256 over the exact tokens that the features were computed from: nothing after them can have mattered."""
    request_tokens: Mapped[int]
    """Tok(C): tokens of the full request."""
    protocol_breaking: Mapped[int]
    """Bit m is set when deleting the set with mask m would break a rule of the protocol."""
    file_id: Mapped[int | None] = mapped_column(ForeignKey("feature_file.id"), info=PHYSICAL)
    method: Mapped[str] = mapped_column(info=PHYSICAL)
    """In which forward: `featurize`, or `label` where the labels were measured in the same one. They agree to 1e-5."""
    code_version: Mapped[str] = mapped_column(info=PHYSICAL)
    computed_at: Mapped[datetime.datetime] = mapped_column(info=PHYSICAL)


class SplitRead(Table):
    """One row per read of a split's features, with labels or without: who may have seen what."""

    __tablename__ = "split_read"
    __table_args__ = (
        one_of("split", SPLITS),
        one_of("purpose", PURPOSES),
        # The database itself: whoever fits or calibrates has never read the test split.
        CheckConstraint("split <> 'test' OR purpose IN ('evaluate', 'describe')", name="test_is_for_evaluation"),
        CheckConstraint("(purpose = 'describe') = (labeler_id IS NULL)", name="labeler_id"),
        *not_negative("states", "labels", "excluded"),
        {"info": JOURNAL},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    view_id: Mapped[int] = mapped_column(ForeignKey("feature_view.id"))
    labeler_id: Mapped[int | None] = mapped_column(ForeignKey("labeler.id"))
    """Labeler of the labels; null if none were read."""
    split: Mapped[str] = mapped_column(String(10))
    purpose: Mapped[str] = mapped_column(String(9))
    states: Mapped[int]
    labels: Mapped[int]
    excluded: Mapped[int]
    """States that were left out because their features cannot be had."""
    code_version: Mapped[str]
    read_at: Mapped[datetime.datetime]
