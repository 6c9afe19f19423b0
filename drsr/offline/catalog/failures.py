"""Failures of a database driver as errors of DRSR: what is wrong, where, what to do. Never a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.engine import ExceptionContext

from drsr.errors import CatalogError, CatalogRevisionMismatch, CatalogUnreachable

UPGRADE_HINT = "drsr catalog upgrade"


class _Failure(NamedTuple):
    error: type[CatalogError]
    what: str
    hint: str
    passing: bool = False
    """Whether trying again in a moment may well succeed."""


_LOCKED = _Failure(
    CatalogUnreachable,
    "the catalog is locked: another process has been writing to it for longer than we wait",
    "wait for the other process, or end it, and run again: nothing of this step was written",
    passing=True,
)
_READ_ONLY = _Failure(CatalogUnreachable, "the catalog is read-only", "give this user the right to write to it")
_OTHER_TABLES = _Failure(CatalogRevisionMismatch, "the catalog lacks tables that this version needs", UPGRADE_HINT)
_FULL = _Failure(CatalogUnreachable, "the catalog's disk is full", "free some space and run again")
_NO_FILE = _Failure(
    CatalogUnreachable, "the catalog's file cannot be opened", "check the path, and that you may write there"
)
_NOT_A_CATALOG = _Failure(
    CatalogUnreachable, "the file is not an SQLite database, or is damaged", "check the URL, or restore the file"
)
_NO_ANSWER = _Failure(
    CatalogUnreachable,
    "the database does not answer",
    "check that it runs, and host, port, name, user and password",
    passing=True,
)
_LOST = _Failure(
    CatalogUnreachable,
    "the connection to the database was lost",
    "run again: nothing of this step was written",
    passing=True,
)

_SQLITE = {
    "database is locked": _LOCKED,
    "database table is locked": _LOCKED,
    "attempt to write a readonly database": _READ_ONLY,
    "no such table": _OTHER_TABLES,
    "no such column": _OTHER_TABLES,
    "database or disk is full": _FULL,
    "unable to open database file": _NO_FILE,
    "file is not a database": _NOT_A_CATALOG,
    "database disk image is malformed": _NOT_A_CATALOG,
}
_POSTGRES = {
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "42P01": _OTHER_TABLES,
    "42703": _OTHER_TABLES,
    "53100": _FULL,
    "55P03": _LOCKED,
}


def translator(where: str) -> Callable[[ExceptionContext], CatalogError | None]:
    """Return a handler for SQLAlchemy's `handle_error` event: replaces what it knows, and lets the rest pass as it is.

    `where` is the catalog's URL without its password.
    """

    def translate(context: ExceptionContext) -> CatalogError | None:
        failure = _recognise(context)
        if failure is None:
            return None
        first_line = str(context.original_exception).strip().partition("\n")[0]
        what = f"{failure.what} ({first_line})"
        if issubclass(failure.error, CatalogUnreachable):
            return failure.error(what, where=where, hint=failure.hint, passing=failure.passing)
        return failure.error(what, where=where, hint=failure.hint)

    return translate


def _recognise(context: ExceptionContext) -> _Failure | None:
    error = context.original_exception
    if context.dialect.name == "sqlite":
        return next((failure for phrase, failure in _SQLITE.items() if phrase in str(error)), None)
    state = getattr(error, "sqlstate", None)
    if state in _POSTGRES:
        return _POSTGRES[state]
    if context.connection is None:
        return _NO_ANSWER
    return _LOST if context.is_disconnect else None
