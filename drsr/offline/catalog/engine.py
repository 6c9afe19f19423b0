"""Opening the catalog: an SQLite file or a PostgreSQL database, with the same guarantees on both.

One writer at a time. A write transaction holds the database's write lock from its first statement (SQLite: BEGIN
IMMEDIATE; PostgreSQL: an advisory lock), so what it looks up is still so when it writes. Readers are never blocked.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from drsr.errors import CatalogUnreachable, MissingExtra, SettingsError
from drsr.offline.catalog.failures import translator
from drsr.redaction import take_apart
from drsr.settings import redacted

LOCK_SECONDS = 60
"""Seconds that a writer waits for another."""
CONNECT_SECONDS = 10
_WRITING = "drsr_writing"
_ADVISORY_LOCK = 0x64727372  # "drsr"


class Catalog:
    """An open catalog. Close it, or use it in a `with` statement."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def location(self) -> str:
        """Its URL without the password."""
        return redacted(self.engine.url.render_as_string(hide_password=True))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one consistent state, that of its first statement, and writes nothing.

        What others write meanwhile shows in the next block: whoever waits for them opens a new one each time.
        """
        with self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                # Said once per block and not as an option of the connection: the pool would take that back by asking
                # for READ WRITE, also where the server's own setting is read-only.
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open the only write transaction at this moment; committed at the end of the block, rolled back by an
        exception."""
        with self.engine.connect().execution_options(**{_WRITING: True}) as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
            yield connection

    def compact(self, tables: Sequence[str]) -> None:
        """Write the database anew, so that deleted rows are left neither in free pages nor in the write-ahead log.

        PostgreSQL writes these tables anew; its log and what is archived of it are the administrator's.
        """
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SET lock_timeout = '{LOCK_SECONDS}s'"))
                for table in tables:
                    connection.execute(text(f"VACUUM (FULL) {table}"))
                connection.execute(text("RESET lock_timeout"))
                return
            driver = connection.connection.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            connection.rollback()
            driver.execute("VACUUM")
            busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            hint = "end what reads it, and erase the same runs again"
            raise CatalogUnreachable(
                "others read the catalog, so its log keeps old pages", where=self.location, hint=hint, passing=True
            )

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.close()


def connect(catalog_url: str, *, create: bool, foreign_keys: bool = True) -> Catalog:
    """Connect to a database at any revision. With `create`, a missing SQLite file is made."""
    url = parse_url(catalog_url)
    path = sqlite_path(url)
    if path is not None:
        _prepare_file(path, redacted(catalog_url), create)
    options: dict[str, Any] = {"timeout": LOCK_SECONDS} if path else {"connect_timeout": CONNECT_SECONDS}
    try:
        engine = create_engine(url, connect_args=options)
    except ModuleNotFoundError as error:
        where = redacted(catalog_url)
        raise MissingExtra(error.name or "psycopg", "offline", needed_for=f"a catalog at {where}") from None
    event.listen(engine, "handle_error", translator(redacted(catalog_url)), retval=True)
    if path is not None:
        _configure_sqlite(engine, foreign_keys)
    return Catalog(engine)


def parse_url(catalog_url: str) -> URL:
    """Return the URL with the driver we use, or a SettingsError."""
    try:
        url = make_url(catalog_url)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The original error may quote the URL with its password.
        raise SettingsError(
            f"{redacted(catalog_url)!r} is not a catalog URL", hint="use sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from None
    if backend in ("postgresql", "postgres"):
        _refuse_torn_password(url, catalog_url)
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise SettingsError(
            f"catalogs cannot be stored in {backend!r}", hint="use sqlite:///PATH or postgresql://USER@HOST/NAME"
        )
    if url.database in (None, "", ":memory:"):
        raise SettingsError("a catalog in memory would be lost at once", hint="use sqlite:///PATH")
    return url


def _refuse_torn_password(url: URL, catalog_url: str) -> None:
    """An @ in a password ends it too early: the rest would be taken for the host, and the driver prints hosts."""
    parts = take_apart(catalog_url)
    password = "" if url.password is None else f":{url.password}"
    if parts is None:
        return
    if "?" in parts.userinfo or unquote(parts.userinfo) != f"{url.username or ''}{password}":
        raise SettingsError(
            "it is unclear where the password in the catalog's URL ends: it holds an @ or a ?",
            where=redacted(catalog_url),
            hint="percent-encode them in the password and in parameters: @ as %40, / as %2F, ? as %3F",
        )


def sqlite_path(url: URL) -> Path | None:
    """Return the file of an SQLite catalog; None for PostgreSQL."""
    if url.get_backend_name() != "sqlite":
        return None
    return Path((url.database or "").removeprefix("file:"))


def _prepare_file(path: Path, where: str, create: bool) -> None:
    if path.exists():
        return
    if not create:
        raise CatalogUnreachable("there is no catalog yet", where=where, hint="drsr ingest URI creates it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogUnreachable(
            f"the catalog's folder cannot be created: {error.strerror}", where=where, hint="set DRSR_CATALOG_URL"
        ) from None


def _configure_sqlite(engine: Engine, foreign_keys: bool) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        # The driver must not begin transactions by itself: it would begin them too late, as readers, and around no DDL.
        connection.isolation_level = None
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute("PRAGMA synchronous = NORMAL")
        _use_write_ahead_log(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Once per database file. SQLite does not wait for other connections here, so several first comers must retry."""
    deadline = time.monotonic() + LOCK_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
