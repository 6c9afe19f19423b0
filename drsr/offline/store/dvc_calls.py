"""DVC called in process, ten times faster than its command. `dvc.repo.Repo` is not a stable interface, so it is used
only here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from drsr.errors import CatalogError, CatalogUnreachable

LOCK_SECONDS = 60.0
"""Seconds to wait for another `dvc` command in the same repository. That command itself gives up after 4 s."""

T = TypeVar("T")


def with_dvc(repository: Path, do: Callable[[Any], T]) -> T:
    """Call something with a repository, quietly; DVC's own exceptions become ours.

    A `Repo` remembers files, so every call has its own.
    """
    from dvc.exceptions import DvcException
    from dvc.lock import LockError
    from dvc.repo import Repo

    logging.getLogger("dvc").setLevel(logging.ERROR)
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            with Repo(str(repository)) as repo:
                return do(repo)
        except LockError as error:  # DVC locks before it does anything, so nothing was done
            if time.monotonic() < until:
                continue  # it has waited 4 s itself
            hint = "wait for the other `dvc` command to end, then run again; nothing is lost"
            raise CatalogUnreachable(str(error).split("\n")[0], where=str(repository), hint=hint) from None
        except DvcException as error:
            raise CatalogError(
                f"DVC refuses: {error}", where=str(repository), hint="fix what this message says and run again"
            ) from error
