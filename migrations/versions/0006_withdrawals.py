"""Runs that take part in nothing any more.

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
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name="fk_withdrawal_source_id"),
        sa.PrimaryKeyConstraint("source_id", "external_id", name="pk_withdrawal"),
    )


def downgrade() -> None:
    op.drop_table("withdrawal")
