"""The noise floor of each labeler, and the way it computes in half precision.

Revision: 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("labeler") as table:
        table.alter_column("dtype", existing_type=sa.String(8), type_=sa.String(16), existing_nullable=False)
        table.add_column(sa.Column("method", sa.String(16), nullable=True))
        table.add_column(sa.Column("noise_floor", sa.JSON(), nullable=True))
    with op.batch_alter_table("feature_view") as table:
        table.alter_column("dtype", existing_type=sa.String(8), type_=sa.String(16), existing_nullable=False)
    # Labels in half precision depend on the way they were computed. A labeler that used one way only is known by it;
    # one that mixed two stays without, and is then refused by `drsr label`.
    op.execute(
        "UPDATE labeler SET method = (SELECT min(m.method) FROM state_measurement m WHERE m.labeler_id = labeler.id) "
        "WHERE dtype <> 'float32' AND "
        "(SELECT count(DISTINCT m.method) FROM state_measurement m WHERE m.labeler_id = labeler.id) = 1"
    )


def downgrade() -> None:
    with op.batch_alter_table("feature_view") as table:
        table.alter_column("dtype", existing_type=sa.String(16), type_=sa.String(8), existing_nullable=False)
    with op.batch_alter_table("labeler") as table:
        table.drop_column("noise_floor")
        table.drop_column("method")
        table.alter_column("dtype", existing_type=sa.String(16), type_=sa.String(8), existing_nullable=False)
