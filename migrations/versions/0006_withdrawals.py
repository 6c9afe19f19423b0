"""Runs that take part in nothing, from when to when.

Revision: 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "withdrawal",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("taken_back_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_withdrawal_source_id"),
        sa.PrimaryKeyConstraint("id", name="pk_withdrawal"),
    )
    op.create_index(
        "uq_withdrawal_in_force",
        "withdrawal",
        ["source_id", "external_id"],
        unique=True,
        sqlite_where=sa.text("taken_back_at IS NULL"),
        postgresql_where=sa.text("taken_back_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("withdrawal")
