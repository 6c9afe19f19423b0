"""Feature views, their files, the features of each state, and who read which split.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = ("feature_view", "feature_file", "state_features", "split_read")
"""Each after those it refers to."""


def upgrade() -> None:
    _create_feature_view()
    _create_feature_file()
    _create_state_features()
    _create_split_read()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_feature_view() -> None:
    op.create_table(
        "feature_view",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("layout_hash", sa.String(length=64), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("backbone", sa.Text(), nullable=False),
        sa.Column("backbone_identity", sa.String(length=64), nullable=False),
        sa.Column("dtype", sa.String(length=8), nullable=False),
        sa.Column("rule_version", sa.Text(), nullable=False),
        sa.Column("rule_hash", sa.String(length=64), nullable=False),
        sa.Column("renderer_version", sa.Text(), nullable=False),
        sa.Column("tokenizer_identity", sa.String(length=64), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_feature_view_version")),
        sa.PrimaryKeyConstraint("id", name="pk_feature_view"),
        sa.UniqueConstraint("name", "version", name="uq_feature_view_name_version"),
    )


def _create_feature_file() -> None:
    op.create_table(
        "feature_file",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("view_id", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=10), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.Column("states", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("split IN ('train', 'validation', 'test')", name=op.f("ck_feature_file_split")),
        sa.CheckConstraint("states >= 0", name=op.f("ck_feature_file_states")),
        sa.CheckConstraint("rows >= 0", name=op.f("ck_feature_file_rows")),
        sa.ForeignKeyConstraint(["view_id"], ["feature_view.id"], name="fk_feature_file_view_id"),
        sa.PrimaryKeyConstraint("id", name="pk_feature_file"),
        sa.UniqueConstraint("view_id", "blob", name="uq_feature_file_view_id_blob"),
    )


def _create_state_features() -> None:
    op.create_table(
        "state_features",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("view_id", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=8), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("prefix_hash", sa.String(length=64), nullable=False),
        sa.Column("request_tokens", sa.Integer(), nullable=False),
        sa.Column("protocol_breaking", sa.Integer(), nullable=False),
        sa.Column("file_id", sa.Integer(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("outcome IN ('stored', 'excluded')", name=op.f("ck_state_features_outcome")),
        sa.CheckConstraint("(outcome = 'excluded') = (reason IS NOT NULL)", name=op.f("ck_state_features_reason")),
        sa.CheckConstraint("(outcome = 'stored') = (file_id IS NOT NULL)", name=op.f("ck_state_features_file_id")),
        sa.CheckConstraint("request_tokens > 0", name=op.f("ck_state_features_request_tokens")),
        sa.CheckConstraint("protocol_breaking BETWEEN 0 AND 65535", name=op.f("ck_state_features_protocol_breaking")),
        sa.ForeignKeyConstraint(["state_id"], ["decision_state.id"], name="fk_state_features_state_id"),
        sa.ForeignKeyConstraint(["view_id"], ["feature_view.id"], name="fk_state_features_view_id"),
        sa.ForeignKeyConstraint(["file_id"], ["feature_file.id"], name="fk_state_features_file_id"),
        sa.PrimaryKeyConstraint("state_id", "view_id", name="pk_state_features"),
    )
    op.create_index("ix_state_features_view_id", "state_features", ["view_id"])
    op.create_index("ix_state_features_file_id", "state_features", ["file_id"])


def _create_split_read() -> None:
    op.create_table(
        "split_read",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("view_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=True),
        sa.Column("split", sa.String(length=10), nullable=False),
        sa.Column("purpose", sa.String(length=9), nullable=False),
        sa.Column("states", sa.Integer(), nullable=False),
        sa.Column("labels", sa.Integer(), nullable=False),
        sa.Column("excluded", sa.Integer(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("split IN ('train', 'validation', 'test')", name=op.f("ck_split_read_split")),
        sa.CheckConstraint(
            "purpose IN ('train', 'calibrate', 'evaluate', 'describe')", name=op.f("ck_split_read_purpose")
        ),
        sa.CheckConstraint(
            "split <> 'test' OR purpose IN ('evaluate', 'describe')", name=op.f("ck_split_read_test_is_for_evaluation")
        ),
        sa.CheckConstraint("(purpose = 'describe') = (labeler_id IS NULL)", name=op.f("ck_split_read_labeler_id")),
        sa.CheckConstraint("states >= 0", name=op.f("ck_split_read_states")),
        sa.CheckConstraint("labels >= 0", name=op.f("ck_split_read_labels")),
        sa.CheckConstraint("excluded >= 0", name=op.f("ck_split_read_excluded")),
        sa.ForeignKeyConstraint(["view_id"], ["feature_view.id"], name="fk_split_read_view_id"),
        sa.ForeignKeyConstraint(["labeler_id"], ["labeler.id"], name="fk_split_read_labeler_id"),
        sa.PrimaryKeyConstraint("id", name="pk_split_read"),
    )
