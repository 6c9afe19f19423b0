"""Reads of splits are events of the journal, too.

Revision: 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KINDS = (
    "'open', 'ingest', 'supersede', 'import', 'freeze', 'label', 'forget', "
    "'withdraw', 'take-back', 'erase', 'promise', 'train', 'calibrate', 'publish'"
)


def upgrade() -> None:
    _allow(f"{KINDS}, 'read'")


def downgrade() -> None:
    # A chain that lost a link is no chain: where a read is in it, an older drsr has to open the journal anew.
    op.execute("DELETE FROM journal_event WHERE EXISTS (SELECT 1 FROM journal_event WHERE kind = 'read')")
    _allow(KINDS)


def _allow(kinds: str) -> None:
    name = op.f("ck_journal_event_kind")
    with op.batch_alter_table("journal_event") as table:
        table.drop_constraint(name, type_="check")
        table.create_check_constraint(name, sa.text(f"kind IN ({kinds})"))
