"""Bringing a catalog's database to the revision that this code was written for, and back.

The Alembic scripts live in the folder `migrations` at the root of the source tree; an installed package carries that
folder as `drsr/offline/migrations`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, inspect, text

from drsr.errors import CatalogError, CatalogRevisionMismatch, InputError
from drsr.offline.catalog.engine import Catalog, connect
from drsr.offline.catalog.failures import UPGRADE_HINT
from drsr.offline.catalog.feature_tables import FeatureView  # noqa: F401 - registers its tables with the metadata
from drsr.offline.catalog.journal import open_journal
from drsr.offline.catalog.label_tables import Label  # noqa: F401 - registers its tables with the metadata
from drsr.offline.catalog.reads import note_reads
from drsr.offline.catalog.release_tables import PolicyRelease  # noqa: F401 - registers its tables with the metadata
from drsr.offline.catalog.scorer_tables import TrainingRun  # noqa: F401 - registers its tables with the metadata
from drsr.offline.catalog.tables import Table

if TYPE_CHECKING:
    from alembic.config import Config

REVISION = "0009"
"""The revision of `tables.py` and its neighbours `*_tables.py`. Written here so that opening a catalog need not import
Alembic; a test compares."""
READS_NOTED_SINCE = "0009"
"""The first revision whose journal has the reads of splits."""
VERSION_TABLE = "drsr_revision"
"""Not Alembic's default name: another application in the same database may use that."""


class RevisionChange(NamedTuple):
    """The result of an upgrade or downgrade. None means a database without our tables."""

    before: str | None
    after: str | None


class CatalogCheck(NamedTuple):
    """The comparison of a database with this code."""

    revision: str | None
    expected: str
    differences: list[str]
    """The differences between the tables and the models, in either direction."""

    @property
    def passed(self) -> bool:
        return self.revision == self.expected and not self.differences


def open_catalog(catalog_url: str, *, create: bool = False) -> Catalog:
    """Open the catalog of this code's revision.

    With `create`, a database that holds nothing of ours yet is upgraded first, by whichever process comes first.
    A database at another revision is always refused: changing tables under other people's feet is a person's decision.
    """
    catalog = connect(catalog_url, create=create)
    try:
        with catalog.reading() as connection:
            revision = current_revision(connection)
        if revision is None and create:
            revision = _migrate(catalog_url, "head", only_if_empty=True).after
        if revision != REVISION:
            raise CatalogRevisionMismatch(
                f"the catalog is {_spoken(revision)}, this version of drsr needs revision {REVISION}",
                where=catalog.location,
                hint=UPGRADE_HINT if revision is None or revision < REVISION else "pip install --upgrade drsr",
            )
    except BaseException:
        catalog.close()
        raise
    return catalog


def upgrade_catalog(catalog_url: str, revision: str = "head") -> RevisionChange:
    """Bring the database up to a revision, in one transaction. A missing SQLite file is created."""
    return _migrate(catalog_url, revision)


def downgrade_catalog(catalog_url: str, revision: str, *, may_lose_rows: bool = False) -> RevisionChange:
    """Bring the database down to a revision (`base` removes all tables and what they hold), in one transaction.

    If tables that hold rows would go, nothing is changed and InputError says which, unless `may_lose_rows`.
    """
    return _migrate(catalog_url, revision, down=True, may_lose_rows=may_lose_rows)


def check_catalog(catalog_url: str) -> CatalogCheck:
    """Compare the database with the models."""
    with connect(catalog_url, create=False) as catalog, catalog.reading() as connection:
        return CatalogCheck(current_revision(connection), REVISION, schema_differences(connection))


def schema_differences(connection: Connection) -> list[str]:
    """Return what the database has that the models do not say, and the other way round; views and triggers, too."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
    differences = [line for found in compare_metadata(context, Table.metadata) for line in _readable(found)]
    ours = set(Table.metadata.tables)
    differences += [f"{name} is a view" for name in inspect(connection).get_view_names() if name in ours]
    found = connection.execute(text(_ADDED[connection.dialect.name])).tuples()
    return differences + [f"{kind} {name} on {table}" for kind, name, table in found if table.strip('"') in ours]


_ADDED = {
    "sqlite": "SELECT 'trigger', name, tbl_name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT 'trigger', tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal "
    "UNION ALL SELECT 'rule', rulename, tablename FROM pg_rules "
    "UNION ALL SELECT 'row security', 'enabled', relname FROM pg_class WHERE relrowsecurity "
    "UNION ALL SELECT 'child', inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits",
}
"""By dialect: what makes a table hold, take or show other rows than were written. We make none of these."""


def current_revision(connection: Connection) -> str | None:
    """Return the revision that the database is at; None without our tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return revision


def script_location() -> Path:
    """Return the folder with env.py and versions/."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise CatalogError("the migration scripts are missing from this installation", hint="install drsr again")


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration for our scripts; env.py takes the connection from it."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _migrate(
    catalog_url: str, revision: str, *, down: bool = False, only_if_empty: bool = False, may_lose_rows: bool = True
) -> RevisionChange:
    from alembic import command
    from alembic.util import CommandError

    # Foreign keys are off on SQLite while tables are rebuilt (dropping the old copy would count as deleting its rows),
    # and checked before the commit.
    with connect(catalog_url, create=not down, foreign_keys=False) as catalog, catalog.writing() as connection:
        before = current_revision(connection)
        if only_if_empty and before is not None:
            return RevisionChange(before, before)
        rows = {} if may_lose_rows else _row_counts(connection)
        try:
            (command.downgrade if down else command.upgrade)(alembic_config(connection), revision)
        except CommandError as error:
            start = "an empty database" if before is None else f"revision {before}"
            what = f"cannot go from {start} to {revision!r}: {error}"
            raise CatalogRevisionMismatch(what, where=catalog.location, hint=_revision_hint(before)) from None
        if not may_lose_rows:
            _refuse_to_lose(rows, _row_counts(connection), revision, catalog.location)
        _check_foreign_keys(connection, catalog.location)
        after = current_revision(connection)
        if after == REVISION:
            begin_journal(connection, before)
        return RevisionChange(before, after)


def begin_journal(connection: Connection, before: str | None) -> None:
    """Begin the parts of the journal that a catalog at revision `before` did not have. Here and not in a revision: this
    reads the tables as this code knows them."""
    open_journal(connection)
    if before is not None and before < READS_NOTED_SINCE:
        note_reads(connection, from_before=True)


def _row_counts(connection: Connection) -> dict[str, int]:
    """Count the rows of each of our tables that exists."""
    there = set(inspect(connection).get_table_names())
    names = {table.name: "" for table in Table.metadata.sorted_tables if table.name in there}
    names |= {"journal_event": " WHERE kind <> 'open'"} if "journal_event" in there else {}  # which every catalog has
    return {
        name: connection.execute(text(f"SELECT count(*) FROM {name}{of}")).scalar_one() for name, of in names.items()
    }


def _refuse_to_lose(before: dict[str, int], after: dict[str, int], revision: str, where: str) -> None:
    """Raise, and so undo the migration, if it took rows away."""
    lost = {name: count - after.get(name, 0) for name, count in before.items() if count > after.get(name, 0)}
    if lost:
        listed = ", ".join(f"{count:,} of {name}" for name, count in lost.items())
        what = f"going down to {revision} would delete rows: {listed}; nothing was changed"
        raise InputError(what, where=where, hint="keep a copy of the database, then add --yes")


def _revision_hint(current: str | None) -> str:
    from alembic.script import ScriptDirectory

    known = [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]
    if current is not None and current not in known:
        return f"this version of drsr does not know that revision ({current}): install the one that wrote the catalog"
    return f"the revisions are base, {', '.join(known)}"


def _readable(difference: Any) -> list[str]:
    """Return a difference that Alembic found, in words: what would have to be done to the database."""
    if isinstance(difference, list):  # changes of one column
        return [line for change in difference for line in _readable(change)]
    kind, *rest = difference
    verb, _, thing = kind.partition("_")
    if verb == "modify":
        _, table, column, _, there, here = rest
        return [f"column {table}.{column}: its {thing} is {there} in the database, {here} in this version of drsr"]
    subject = rest[-1]
    if thing == "column":
        name = f"{rest[1]}.{subject.name}"
    elif thing == "table":
        name = subject.name
    else:
        name = f"{subject.name} of table {subject.table.name}"
    where = "is missing from the database" if verb == "add" else "is in the database, but unknown to this version"
    return [f"{thing.replace('_', ' ')} {name} {where}"]


def _check_foreign_keys(connection: Connection, where: str) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.execute(text("PRAGMA foreign_key_check")).first()
    if broken is not None:
        what = f"the migration would break a reference of table {broken[0]}; nothing was changed"
        raise CatalogError(what, where=where)


def _spoken(revision: str | None) -> str:
    return "empty" if revision is None else f"at revision {revision}"
