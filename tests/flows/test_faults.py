"""Only what may pass by itself is tried again."""

from __future__ import annotations

import errno
from typing import Any

import httpx
import pytest
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from sqlalchemy.exc import OperationalError

from drsr.errors import ArtifactCorrupt, CatalogRevisionMismatch, CatalogUnreachable, InputError, ReleaseRefused
from drsr.flows.faults import DELAYS, RETRIES, is_passing, is_worth_another_try, patiently
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.worker_processes import WorkerFailed

REQUEST = httpx.Request("GET", "http://server/api")


@pytest.mark.parametrize(
    "error",
    [
        CatalogUnreachable("locked", passing=True),
        WorkerFailed("the connection was lost", passing=True),
        OperationalError("SELECT 1", {}, Exception("deadlock detected")),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("no answer"),
        httpx.HTTPStatusError("away", request=REQUEST, response=httpx.Response(503)),
    ],
)
def test_faults_that_pass(error: Exception) -> None:
    assert is_passing(error)
    assert is_worth_another_try(None, None, failed(error))


@pytest.mark.parametrize(
    "error",
    [
        CatalogUnreachable("read-only"),
        CatalogRevisionMismatch("another migration"),
        ArtifactCorrupt("cut short"),
        ReleaseRefused("a check failed"),
        WorkerFailed("all workers were killed"),
        InputError("empty"),
        ValueError("a bug"),
        MemoryError(),
        httpx.HTTPStatusError("not there", request=REQUEST, response=httpx.Response(404)),
        httpx.TooManyRedirects("a wrong address"),
    ],
)
def test_everything_else_fails_at_once(error: Exception) -> None:
    assert not is_passing(error)
    assert not is_worth_another_try(None, None, failed(error))


def test_a_timeout_is_not_tried_again() -> None:
    assert not is_worth_another_try(None, None, Failed(name="TimedOut", data=ConnectionResetError()))


def test_a_state_without_an_error() -> None:
    assert not is_worth_another_try(None, None, Completed(data=3))


def test_each_further_attempt_waits_longer() -> None:
    assert list(DELAYS) == sorted(DELAYS)
    assert RETRIES["retries"] == len(RETRIES["retry_delay_seconds"])


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (OSError(errno.ENOSPC, "no space left"), False),
        (OSError(errno.EROFS, "read-only"), False),
        (PermissionError("not yours"), False),
        (FileNotFoundError("no such bucket"), False),
        (OSError(errno.EIO, "input/output error"), True),
        (TimeoutError("no answer"), True),
        (RuntimeError("SlowDown"), True),
    ],
)
def test_failures_of_storage(error: Exception, passing: bool, tmp_path: Any) -> None:
    store = ArtifactStore(str(tmp_path))
    with pytest.raises(CatalogUnreachable) as raised, store._reaching():
        raise error
    assert raised.value.passing is passing


def test_a_call_that_is_no_task_is_tried_as_often_and_waits_as_long() -> None:
    pauses: list[float] = []
    with pytest.raises(CatalogUnreachable):
        patiently(unreachable, pauses.append)
    assert len(pauses) == len(DELAYS)
    assert all(delay <= pause <= 1.2 * delay for delay, pause in zip(DELAYS, pauses, strict=True))


def unreachable() -> None:
    raise CatalogUnreachable("no answer", passing=True)


def test_a_call_that_succeeds_in_the_end() -> None:
    errors: list[Exception] = [ConnectionResetError(), CatalogUnreachable("locked", passing=True)]

    def call() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert patiently(call, lambda seconds: None) == 7


def test_a_call_whose_failure_lasts_is_made_once() -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise CatalogRevisionMismatch("another migration")

    with pytest.raises(CatalogRevisionMismatch):
        patiently(call, lambda seconds: None)
    assert len(calls) == 1


def failed(error: Exception) -> State[Any]:
    return Failed(data=error)
