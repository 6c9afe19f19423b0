"""Runs migrations on the connection that drsr hands over or, for developers' `alembic`, on the configured catalog."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from drsr.offline.catalog.engine import connect
from drsr.offline.catalog.migrations import REVISION, VERSION_TABLE, begin_journal, current_revision
from drsr.offline.catalog.tables import Table
from drsr.settings import load_settings


def run(connection: Connection) -> None:
    """Run in the connection's own transaction; the caller commits."""
    context.configure(
        connection=connection,
        target_metadata=Table.metadata,
        version_table=VERSION_TABLE,
        # SQLite cannot alter most of a table: batch mode copies it instead.
        render_as_batch=connection.dialect.name == "sqlite",
        # Alembic does not expect it of SQLite, whose tables do change in transactions: a killed upgrade leaves nothing.
        transactional_ddl=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("SQL without a database is not supported: migrations look at the tables they change")
handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with connect(load_settings().catalog_url, create=True, foreign_keys=False) as catalog, catalog.writing() as own:
        before = current_revision(own)
        run(own)
        if current_revision(own) == REVISION:
            begin_journal(own, before)
