"""The journal of events, each with the hash of the one before.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KINDS = (
    "'open', 'ingest', 'supersede', 'import', 'freeze', 'label', 'forget', "
    "'withdraw', 'take-back', 'erase', 'promise', 'train', 'calibrate', 'publish'"
)


def upgrade() -> None:
    op.create_table(
        "journal_event",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=9), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("before", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(f"kind IN ({KINDS})", name=op.f("ck_journal_event_kind")),
        sa.CheckConstraint("id >= 1", name=op.f("ck_journal_event_id")),
        sa.PrimaryKeyConstraint("id", name="pk_journal_event"),
    )


def downgrade() -> None:
    op.drop_table("journal_event")
