"""Failures that a task tries again: storage, a database or Prefect's server that does not answer for a moment.

Nothing else: a failed check, wrong input or a bug gives the same again; trying it again would only hide it for a while.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from prefect.client.schemas.objects import State
from sqlalchemy.exc import InterfaceError, OperationalError

from drsr.errors import DrsrError

DELAYS = (2.0, 10.0, 60.0, 300.0)
"""Seconds before each further attempt; up to a fifth more by chance, so that workers do not all come back at once."""
JITTER = 0.2
FIRST_SERVER_ERROR = 500
Value = TypeVar("Value")


def is_passing(error: object) -> bool:
    """Return whether the same may well succeed in a moment."""
    if isinstance(error, DrsrError):
        return bool(getattr(error, "passing", False))
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= FIRST_SERVER_ERROR
    # What the catalog did not recognise, such as a deadlock; sockets that were closed at the other end; and a server of
    # Prefect that is started again, which a new client of it does not wait for.
    return isinstance(error, OperationalError | InterfaceError | ConnectionError | httpx.TransportError)


def is_worth_another_try(task: Any, task_run: Any, state: State[Any]) -> bool:
    """Prefect asks this after each failure of a task."""
    if state.name == "TimedOut":
        return False
    return is_passing(state.result(raise_on_failure=False))


RETRIES: dict[str, Any] = {
    "retries": len(DELAYS),
    "retry_delay_seconds": list(DELAYS),
    "retry_jitter_factor": JITTER,
    "retry_condition_fn": is_worth_another_try,
}
"""For every task that touches catalog or artifacts: `@task(**RETRIES)`."""


def patiently(call: Callable[[], Value], pause: Callable[[float], None] = time.sleep) -> Value:
    """Do the same for a call that is not a task, such as one that watches over flow runs and must outlive what they
    outlive."""
    for delay in DELAYS:
        try:
            return call()
        except Exception as error:
            if not is_passing(error):
                raise
        pause(delay * random.uniform(1.0, 1.0 + JITTER))
    return call()
