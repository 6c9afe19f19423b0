"""Published policies.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "policy_release",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("calibration_run_id", sa.Integer(), nullable=False),
        sa.Column("identity", sa.String(length=64), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("wheel", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("lineage", sa.String(length=64), nullable=False),
        sa.Column("states", sa.String(length=64), nullable=False),
        sa.Column("abstains_always", sa.Boolean(), nullable=False),
        sa.Column("requires", sa.Text(), nullable=False),
        sa.Column("golden_requests", sa.Integer(), nullable=False),
        sa.Column("gates", sa.JSON(), nullable=False),
        sa.Column("index_location", sa.Text(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("size > 0", name=op.f("ck_policy_release_size")),
        sa.CheckConstraint("golden_requests > 0", name=op.f("ck_policy_release_golden_requests")),
        sa.ForeignKeyConstraint(
            ["calibration_run_id"], ["calibration_run.id"], name="fk_policy_release_calibration_run_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_policy_release"),
        sa.UniqueConstraint("version", name="uq_policy_release_version"),
    )
    op.create_index("ix_policy_release_calibration_run_id", "policy_release", ["calibration_run_id"])


def downgrade() -> None:
    op.drop_table("policy_release")
