"""Databases for tests: every catalog test runs on an SQLite file and on a real PostgreSQL, each test on its own one.

`DRSR_TEST_POSTGRES_URL` names a server where databases may be created; without it one is started by itself.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from drsr.offline.catalog.migrations import upgrade_catalog

DATABASES = ("sqlite", "postgresql")
_numbers = itertools.count(1)


@contextmanager
def fresh_database(kind: str, folder: Path, *, migrated: bool) -> Iterator[str]:
    """URL of a database of this test's own: without tables, or at this code's revision."""
    if kind == "sqlite":
        path = folder / "catalog" / "catalog.sqlite"
        if migrated:
            path.parent.mkdir()
            shutil.copyfile(_migrated_sqlite(), path)
        yield f"sqlite:///{path}"
    else:
        url = create_postgres_database(_migrated_postgres() if migrated else "template1")
        try:
            yield url
        finally:
            _administer("DROP DATABASE {} WITH (FORCE)", make_url(url).database or "")


def create_postgres_database(template: str) -> str:
    name = f"drsr_{os.getpid()}_{next(_numbers)}"
    _administer("CREATE DATABASE {} TEMPLATE {}", name, template)
    return make_url(_postgres_server()).set(database=name).render_as_string(hide_password=False)


@contextmanager
def not_accepting_connections(url: URL) -> Iterator[None]:
    """Within the block a database of PostgreSQL is away: it cuts every connection, and lets nobody in."""
    name = url.database or ""
    _administer("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
    try:
        with psycopg.connect(_administration(), autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
    finally:
        _administer("ALTER DATABASE {} ALLOW_CONNECTIONS true", name)


@cache
def _migrated_sqlite() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="drsr"))
    atexit.register(shutil.rmtree, folder)
    path = folder / "catalog.sqlite"
    upgrade_catalog(f"sqlite:///{path}")
    return path


@cache
def _migrated_postgres() -> str:
    url = create_postgres_database("template1")
    atexit.register(_administer, "DROP DATABASE {} WITH (FORCE)", make_url(url).database or "")
    upgrade_catalog(url)
    return make_url(url).database or ""


def _administer(statement: str, *names: str) -> None:
    with psycopg.connect(_administration(), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _administration() -> str:
    return _postgres_server().replace("postgresql+psycopg://", "postgresql://")


@cache
def _postgres_server() -> str:
    given = os.environ.get("DRSR_TEST_POSTGRES_URL")
    if given:
        return given
    server = PostgresServer()
    atexit.register(server.stop)
    return server.url


class PostgresServer:
    """A PostgreSQL of its own, in a process that goes away with this one."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("postgres_server.py")
        command = [sys.executable, "-W", "ignore", str(script)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._ready()

    def restart(self) -> None:
        """Cut every connection, and be back in a moment."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        assert self._ready() == self.url

    def stop(self) -> None:
        self._process.communicate(timeout=60)

    def _ready(self) -> str:
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        assert url, "PostgreSQL did not start; its own words are above"
        return url
