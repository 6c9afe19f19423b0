"""Trained scorers, and the operating points chosen for them.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = ("training_run", "calibration_run")
"""Each after those it refers to."""


def upgrade() -> None:
    _create_training_run()
    _create_calibration_run()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_training_run() -> None:
    op.create_table(
        "training_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_key", sa.String(length=64), nullable=False),
        sa.Column("ablation", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("view_id", sa.Integer(), nullable=False),
        sa.Column("labeler_id", sa.Integer(), nullable=False),
        sa.Column("layout_hash", sa.String(length=64), nullable=False),
        sa.Column("train_hash", sa.String(length=64), nullable=False),
        sa.Column("validation_hash", sa.String(length=64), nullable=False),
        sa.Column("train_sets", sa.Integer(), nullable=False),
        sa.Column("train_trajectories", sa.Integer(), nullable=False),
        sa.Column("validation_sets", sa.Integer(), nullable=False),
        sa.Column("validation_trajectories", sa.Integer(), nullable=False),
        sa.Column("seeds", sa.JSON(), nullable=False),
        sa.Column("chosen_epochs", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("weights", sa.String(length=64), nullable=False),
        sa.Column("history", sa.String(length=64), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("trained_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("train_sets >= 0", name=op.f("ck_training_run_train_sets")),
        sa.CheckConstraint("train_trajectories >= 0", name=op.f("ck_training_run_train_trajectories")),
        sa.CheckConstraint("validation_sets >= 0", name=op.f("ck_training_run_validation_sets")),
        sa.CheckConstraint("validation_trajectories >= 0", name=op.f("ck_training_run_validation_trajectories")),
        sa.ForeignKeyConstraint(["view_id"], ["feature_view.id"], name="fk_training_run_view_id"),
        sa.ForeignKeyConstraint(["labeler_id"], ["labeler.id"], name="fk_training_run_labeler_id"),
        sa.PrimaryKeyConstraint("id", name="pk_training_run"),
        sa.UniqueConstraint("run_key", name="uq_training_run_run_key"),
    )
    op.create_index("ix_training_run_view_id", "training_run", ["view_id"])
    op.create_index("ix_training_run_labeler_id", "training_run", ["labeler_id"])


def _create_calibration_run() -> None:
    op.create_table(
        "calibration_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("calibration_key", sa.String(length=64), nullable=False),
        sa.Column("training_run_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(length=9), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("validation_hash", sa.String(length=64), nullable=False),
        sa.Column("train_hash", sa.String(length=64), nullable=True),
        sa.Column("abstains_always", sa.Boolean(), nullable=False),
        sa.Column("max_cardinality", sa.Integer(), nullable=False),
        sa.Column("uncertainty_coefficient", sa.Float(), nullable=False),
        sa.Column("risk_threshold", sa.Float(), nullable=True),
        sa.Column("removal_cap", sa.Float(), nullable=False),
        sa.Column("states", sa.Integer(), nullable=False),
        sa.Column("incomplete_states", sa.Integer(), nullable=False),
        sa.Column("tried", sa.Integer(), nullable=False),
        sa.Column("admissible", sa.Integer(), nullable=False),
        sa.Column("selected", sa.Integer(), nullable=False),
        sa.Column("unsafe_rate", sa.Float(), nullable=True),
        sa.Column("mean_harm", sa.Float(), nullable=True),
        sa.Column("mean_removal", sa.Float(), nullable=False),
        sa.Column("unsafe_bound", sa.Float(), nullable=True),
        sa.Column("confidence", sa.Float(), nullable=True),
        sa.Column("bound", sa.Text(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("search_table", sa.String(length=64), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("calibrated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("mode IN ('plain', 'certified')", name=op.f("ck_calibration_run_mode")),
        sa.CheckConstraint("max_cardinality BETWEEN 1 AND 4", name=op.f("ck_calibration_run_max_cardinality")),
        sa.CheckConstraint(
            "(abstains_always) = (risk_threshold IS NULL)", name=op.f("ck_calibration_run_risk_threshold")
        ),
        sa.CheckConstraint(
            "(mode = 'certified') = (confidence IS NOT NULL)", name=op.f("ck_calibration_run_confidence")
        ),
        sa.CheckConstraint("states >= 0", name=op.f("ck_calibration_run_states")),
        sa.CheckConstraint("incomplete_states >= 0", name=op.f("ck_calibration_run_incomplete_states")),
        sa.CheckConstraint("tried >= 0", name=op.f("ck_calibration_run_tried")),
        sa.CheckConstraint("admissible >= 0", name=op.f("ck_calibration_run_admissible")),
        sa.CheckConstraint("selected >= 0", name=op.f("ck_calibration_run_selected")),
        sa.ForeignKeyConstraint(["training_run_id"], ["training_run.id"], name="fk_calibration_run_training_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_calibration_run"),
        sa.UniqueConstraint("calibration_key", name="uq_calibration_run_calibration_key"),
    )
    op.create_index("ix_calibration_run_training_run_id", "calibration_run", ["training_run_id"])
