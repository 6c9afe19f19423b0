"""Labelers, measurements, labels, exclusions, interactions, and the claims of workers.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("labeler", "state_measurement", "label", "label_exclusion", "interaction", "claim")
"""Each after those it refers to."""


def upgrade() -> None:
    _create_labeler()
    _create_state_measurement()
    _create_label()
    _create_label_exclusion()
    _create_interaction()
    _create_claim()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_labeler() -> None:
    op.create_table(
        "labeler",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("backbone", sa.Text(), nullable=False),
        sa.Column("backbone_identity", sa.String(length=64), nullable=False),
        sa.Column("dtype", sa.String(length=8), nullable=False),
        sa.Column("renderer_version", sa.Text(), nullable=False),
        sa.Column("rule_hash", sa.String(length=64), nullable=False),
        sa.Column("target_cap", sa.Integer(), nullable=False),
        sa.Column("harm_tolerance", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_labeler"),
        sa.UniqueConstraint("name", name="uq_labeler_name"),
    )


def _create_state_measurement() -> None:
    op.create_table(
        "state_measurement",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=8), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("intact_nll", sa.Float(), nullable=True),
        sa.Column("target_tokens", sa.Integer(), nullable=False),
        sa.Column("target_hash", sa.String(length=64), nullable=False),
        sa.Column("context_tokens", sa.Integer(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("outcome IN ('labelled', 'excluded')", name=op.f("ck_state_measurement_outcome")),
        sa.CheckConstraint("(outcome = 'excluded') = (reason IS NOT NULL)", name=op.f("ck_state_measurement_reason")),
        sa.CheckConstraint(
            "(outcome = 'labelled') = (intact_nll IS NOT NULL)", name=op.f("ck_state_measurement_intact_nll")
        ),
        sa.CheckConstraint("target_tokens >= 0", name=op.f("ck_state_measurement_target_tokens")),
        sa.CheckConstraint("context_tokens >= 0", name=op.f("ck_state_measurement_context_tokens")),
        sa.ForeignKeyConstraint(["state_id"], ["decision_state.id"], name="fk_state_measurement_state_id"),
        sa.ForeignKeyConstraint(["labeler_id"], ["labeler.id"], name="fk_state_measurement_labeler_id"),
        sa.PrimaryKeyConstraint("state_id", "labeler_id", name="pk_state_measurement"),
    )
    op.create_index("ix_state_measurement_labeler_id", "state_measurement", ["labeler_id"])


def _create_label() -> None:
    op.create_table(
        "label",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=False),
        sa.Column("mask", sa.Integer(), nullable=False),
        sa.Column("cardinality", sa.Integer(), nullable=False),
        sa.Column("direct_saving", sa.Integer(), nullable=False),
        sa.Column("deleted_nll", sa.Float(), nullable=False),
        sa.Column("harm", sa.Float(), nullable=False),
        sa.Column("unsafe", sa.Boolean(), nullable=False),
        sa.CheckConstraint("mask BETWEEN 1 AND 15", name=op.f("ck_label_mask")),
        sa.CheckConstraint("cardinality BETWEEN 1 AND 4", name=op.f("ck_label_cardinality")),
        sa.CheckConstraint("direct_saving > 0", name=op.f("ck_label_direct_saving")),
        sa.ForeignKeyConstraint(
            ["state_id", "labeler_id"],
            ["state_measurement.state_id", "state_measurement.labeler_id"],
            name="fk_label_state_id_labeler_id",
        ),
        sa.PrimaryKeyConstraint("state_id", "labeler_id", "mask", name="pk_label"),
    )


def _create_label_exclusion() -> None:
    op.create_table(
        "label_exclusion",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=False),
        sa.Column("mask", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint("mask BETWEEN 1 AND 15", name=op.f("ck_label_exclusion_mask")),
        sa.ForeignKeyConstraint(
            ["state_id", "labeler_id"],
            ["state_measurement.state_id", "state_measurement.labeler_id"],
            name="fk_label_exclusion_state_id_labeler_id",
        ),
        sa.PrimaryKeyConstraint("state_id", "labeler_id", "mask", name="pk_label_exclusion"),
    )


def _create_interaction() -> None:
    op.create_table(
        "interaction",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=False),
        sa.Column("mask", sa.Integer(), nullable=False),
        sa.Column("residual", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["state_id", "labeler_id", "mask"],
            ["label.state_id", "label.labeler_id", "label.mask"],
            name="fk_interaction_state_id_labeler_id_mask",
        ),
        sa.PrimaryKeyConstraint("state_id", "labeler_id", "mask", name="pk_interaction"),
    )


def _create_claim() -> None:
    op.create_table(
        "claim",
        sa.Column("stage", sa.String(length=9), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("stage", "item", name="pk_claim"),
    )
