"""Sources, trajectories, states with their candidates, and runs.

Revision: 0001, the first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "source",
    "source_file",
    "quarantined_item",
    "split_group",
    "trajectory",
    "trajectory_file",
    "trajectory_reward",
    "frozen_trajectory",
    "decision_state",
    "candidate",
    "run",
)
"""Each after those it refers to."""


def upgrade() -> None:
    _create_source()
    _create_source_file()
    _create_quarantined_item()
    _create_split_group()
    _create_trajectory()
    _create_trajectory_file()
    _create_trajectory_reward()
    _create_frozen_trajectory()
    _create_decision_state()
    _create_candidate()
    _create_run()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_source() -> None:
    op.create_table(
        "source",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_source"),
        sa.UniqueConstraint("name", name="uq_source_name"),
    )


def _create_source_file() -> None:
    op.create_table(
        "source_file",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("stamp", sa.Text(), nullable=True),
        sa.Column("trajectories", sa.Integer(), nullable=False),
        sa.Column("quarantined", sa.Integer(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("quarantined >= 0", name=op.f("ck_source_file_quarantined")),
        sa.CheckConstraint("trajectories >= 0", name=op.f("ck_source_file_trajectories")),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_source_file_source_id"),
        sa.PrimaryKeyConstraint("id", name="pk_source_file"),
        sa.UniqueConstraint("location", "source_id", name="uq_source_file_location_source_id"),
    )


def _create_quarantined_item() -> None:
    op.create_table(
        "quarantined_item",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_file_id", sa.Integer(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["source_file_id"], ["source_file.id"], name="fk_quarantined_item_source_file_id"),
        sa.PrimaryKeyConstraint("id", name="pk_quarantined_item"),
        sa.UniqueConstraint(
            "source_file_id", "location", "reason", name="uq_quarantined_item_source_file_id_location_reason"
        ),
    )


def _create_split_group() -> None:
    op.create_table(
        "split_group",
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("split", sa.String(length=10), nullable=False),
        sa.CheckConstraint("split IN ('train', 'validation', 'test')", name=op.f("ck_split_group_split")),
        sa.PrimaryKeyConstraint("group_key", name="pk_split_group"),
        sa.UniqueConstraint("group_key", "split", name="uq_split_group_group_key_split"),
    )


def _create_trajectory() -> None:
    op.create_table(
        "trajectory",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("superseded_by", sa.Integer(), nullable=True),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.Column("protocol", sa.String(length=9), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("domain", sa.Text(), nullable=True),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("split", sa.String(length=10), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("assistant_messages", sa.Integer(), nullable=False),
        sa.Column("tool_calls", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("protocol IN ('openai', 'anthropic')", name=op.f("ck_trajectory_protocol")),
        sa.CheckConstraint("assistant_messages >= 0", name=op.f("ck_trajectory_assistant_messages")),
        sa.CheckConstraint("messages >= 0", name=op.f("ck_trajectory_messages")),
        sa.CheckConstraint("superseded_by <> version", name=op.f("ck_trajectory_superseded_by")),
        sa.CheckConstraint("tool_calls >= 0", name=op.f("ck_trajectory_tool_calls")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_trajectory_version")),
        sa.ForeignKeyConstraint(
            ["group_key", "split"], ["split_group.group_key", "split_group.split"], name="fk_trajectory_group_key_split"
        ),
        sa.ForeignKeyConstraint(
            ["source_id", "external_id", "superseded_by"],
            ["trajectory.source_id", "trajectory.external_id", "trajectory.version"],
            name="fk_trajectory_source_id_external_id_superseded_by",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_trajectory_source_id"),
        sa.PrimaryKeyConstraint("id", name="pk_trajectory"),
        sa.UniqueConstraint(
            "source_id", "external_id", "content_hash", name="uq_trajectory_source_id_external_id_content_hash"
        ),
        sa.UniqueConstraint("source_id", "external_id", "version", name="uq_trajectory_source_id_external_id_version"),
    )
    op.create_index("ix_trajectory_content_hash", "trajectory", ["content_hash"])
    op.create_index(
        "uq_trajectory_current",
        "trajectory",
        ["source_id", "external_id"],
        unique=True,
        sqlite_where=sa.text("superseded_by IS NULL"),
        postgresql_where=sa.text("superseded_by IS NULL"),
    )


def _create_trajectory_file() -> None:
    op.create_table(
        "trajectory_file",
        sa.Column("trajectory_id", sa.Integer(), nullable=False),
        sa.Column("source_file_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["source_file_id"], ["source_file.id"], name="fk_trajectory_file_source_file_id"),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name="fk_trajectory_file_trajectory_id"),
        sa.PrimaryKeyConstraint("trajectory_id", "source_file_id", name="pk_trajectory_file"),
    )


def _create_trajectory_reward() -> None:
    op.create_table(
        "trajectory_reward",
        sa.Column("trajectory_id", sa.Integer(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name="fk_trajectory_reward_trajectory_id"),
        sa.PrimaryKeyConstraint("trajectory_id", name="pk_trajectory_reward"),
    )


def _create_frozen_trajectory() -> None:
    op.create_table(
        "frozen_trajectory",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trajectory_id", sa.Integer(), nullable=False),
        sa.Column("rule_version", sa.Text(), nullable=False),
        sa.Column("rule_hash", sa.String(length=64), nullable=False),
        sa.Column("renderer_version", sa.Text(), nullable=False),
        sa.Column("tokenizer_identity", sa.String(length=64), nullable=False),
        sa.Column("eligible_decisions", sa.Integer(), nullable=False),
        sa.Column("why_none", sa.Text(), nullable=True),
        sa.Column("frozen_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "(eligible_decisions = 0) = (why_none IS NOT NULL)", name=op.f("ck_frozen_trajectory_why_none")
        ),
        sa.CheckConstraint("eligible_decisions >= 0", name=op.f("ck_frozen_trajectory_eligible_decisions")),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name="fk_frozen_trajectory_trajectory_id"),
        sa.PrimaryKeyConstraint("id", name="pk_frozen_trajectory"),
        sa.UniqueConstraint(
            "trajectory_id", "rule_hash", "renderer_version", "tokenizer_identity", name="uq_frozen_trajectory_identity"
        ),
    )


def _create_decision_state() -> None:
    op.create_table(
        "decision_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trajectory_id", sa.Integer(), nullable=False),
        sa.Column("decision_index", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("quantile", sa.Float(), nullable=False),
        sa.Column("rule_version", sa.Text(), nullable=False),
        sa.Column("rule_hash", sa.String(length=64), nullable=False),
        sa.Column("renderer_version", sa.Text(), nullable=False),
        sa.Column("tokenizer_identity", sa.String(length=64), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("state_key", sa.String(length=64), nullable=False),
        sa.Column("candidates", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=8), nullable=False),
        sa.Column("frozen_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("status IN ('frozen', 'excluded')", name=op.f("ck_decision_state_status")),
        sa.CheckConstraint("candidates BETWEEN 3 AND 4", name=op.f("ck_decision_state_candidates")),
        sa.CheckConstraint("decision_index >= 1", name=op.f("ck_decision_state_decision_index")),
        sa.CheckConstraint("ordinal >= 0", name=op.f("ck_decision_state_ordinal")),
        sa.CheckConstraint("quantile > 0 AND quantile <= 1", name=op.f("ck_decision_state_quantile")),
        sa.ForeignKeyConstraint(["trajectory_id"], ["trajectory.id"], name="fk_decision_state_trajectory_id"),
        sa.PrimaryKeyConstraint("id", name="pk_decision_state"),
        sa.UniqueConstraint("state_key", name="uq_decision_state_state_key"),
        sa.UniqueConstraint(
            "trajectory_id",
            "decision_index",
            "rule_hash",
            "renderer_version",
            "tokenizer_identity",
            name="uq_decision_state_identity",
        ),
    )


def _create_candidate() -> None:
    op.create_table(
        "candidate",
        sa.Column("state_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step_index", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=15), nullable=False),
        sa.Column("component_index", sa.Integer(), nullable=False),
        sa.Column("direct_saving", sa.Integer(), nullable=False),
        sa.Column("token_spans", sa.JSON(), nullable=False),
        sa.Column("text_hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("kind IN ('assistant_state', 'tool_exchange')", name=op.f("ck_candidate_kind")),
        sa.CheckConstraint("component_index >= 0", name=op.f("ck_candidate_component_index")),
        sa.CheckConstraint("direct_saving > 0", name=op.f("ck_candidate_direct_saving")),
        sa.CheckConstraint("position BETWEEN 0 AND 3", name=op.f("ck_candidate_position")),
        sa.CheckConstraint("step_index >= 0", name=op.f("ck_candidate_step_index")),
        sa.ForeignKeyConstraint(["state_id"], ["decision_state.id"], name="fk_candidate_state_id"),
        sa.PrimaryKeyConstraint("state_id", "position", name="pk_candidate"),
        sa.UniqueConstraint(
            "state_id", "step_index", "component_index", name="uq_candidate_state_id_step_index_component_index"
        ),
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(length=9), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("counts", sa.JSON(), nullable=True),
        sa.CheckConstraint(
            "stage IN ('ingest', 'freeze', 'label', 'featurize', 'train', 'calibrate', 'evaluate', 'publish')",
            name=op.f("ck_run_stage"),
        ),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
    )
    op.create_index("ix_run_started_at", "run", ["started_at"])
