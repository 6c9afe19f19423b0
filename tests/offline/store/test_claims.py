"""Claims: one living worker per item, and the items of a dead one taken over."""

from __future__ import annotations

import datetime
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from drsr.errors import CatalogUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.workers import is_gone, this_worker
from drsr.offline.store import claims
from drsr.offline.store.claims import LEASE_SECONDS, Claims, drop_claim, holder_lives
from tests.offline.databases import fresh_database, not_accepting_connections


def test_this_process_is_not_gone_and_an_ended_one_is() -> None:
    assert not is_gone(this_worker())
    code = "from drsr.offline.catalog.workers import this_worker; print(this_worker())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert is_gone(ended)
    host, pid, _ = this_worker().rsplit("/", 2)
    assert is_gone(f"{host}/{pid}/1"), "the same number, but another process had it before"
    assert not is_gone(f"elsewhere/{os.getpid()}/1"), "nobody can tell from here"


def test_a_worker_in_another_container_of_the_same_name_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers may share the host's name; process 1 of one is not process 1 of the other."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "readlink", lambda path: "pid:[1]")
        other = this_worker().rpartition("/")[0] + "/1"
        assert is_gone(other), "seen from its own container"
    assert not is_gone(other)


def test_without_a_proc_the_name_of_the_host_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", absent)
    assert this_worker().rsplit("/", 2)[0] == socket.gethostname()
    assert not is_gone(this_worker())


class FailingCatalog(Catalog):
    """A double whose write transactions fail while `fails` is set; it tells of each."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog.engine)
        self.fails = False
        self.failed, self.succeeded = threading.Event(), threading.Event()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self.fails:
            self.failed.set()
            raise CatalogUnreachable("the catalog is locked", passing=True)
        with super().writing() as connection:
            yield connection
        self.succeeded.set()


def test_the_heartbeat_goes_on_after_a_failure(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 0.01)
    failing = FailingCatalog(catalog)
    with Claims(failing, "label") as mine:
        with failing.writing() as connection:
            assert mine.take(connection, "a")
        failing.fails = True
        assert failing.failed.wait(60)
        failing.succeeded.clear()
        failing.fails = False
        assert failing.succeeded.wait(60), "no heartbeat came any more"


def claim_of(catalog: Catalog, worker: str, seconds_ago: float) -> None:
    """As if another worker had claimed item a so long ago."""
    with Claims(catalog, "label") as claims, catalog.writing() as connection:
        assert claims.take(connection, "a")
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
        connection.execute(update(Claim).values(worker=worker, heartbeat_at=then))


@pytest.mark.parametrize(
    ("worker", "seconds_ago", "taken"),
    [
        ("elsewhere/7/1", 1.0, False),
        ("elsewhere/7/1", LEASE_SECONDS + 1, True),
        ("{host}/{pid}/1", 1.0, True),
        ("{me}", 1.0, True),
    ],
)
def test_an_item_is_free_when_its_worker_is_dead_or_silent(
    catalog: Catalog, worker: str, seconds_ago: float, taken: bool
) -> None:
    host, pid, _ = this_worker().rsplit("/", 2)
    claim_of(catalog, worker.format(host=host, pid=pid, me=this_worker()), seconds_ago)
    with Claims(catalog, "label") as claims, catalog.writing() as connection:
        assert claims.take(connection, "a") is taken
        assert claims.take(connection, "b") is True


def test_claims_end_with_the_worker(catalog: Catalog) -> None:
    with Claims(catalog, "label") as claims:
        with catalog.writing() as connection:
            assert claims.take(connection, "a")
            assert claims.take(connection, "b")
            claims.release(connection, "a")
        with catalog.reading() as connection:
            assert [row.item for row in connection.execute(select(Claim.item))] == ["b"]
    with catalog.reading() as connection:
        assert connection.execute(select(Claim.item)).all() == []


@pytest.mark.parametrize("passing", [True, False])
def test_claims_that_cannot_be_given_back(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, passing: bool) -> None:
    """They neither hide why the work ended nor, where the catalog will be back, end what was done well."""

    @contextmanager
    def unreachable() -> Iterator[Connection]:
        raise CatalogUnreachable("no answer", passing=passing)
        yield

    def work(error: Exception | None) -> None:
        with Claims(catalog, "label"):
            if error is not None:
                raise error

    monkeypatch.setattr(catalog, "writing", unreachable)
    with pytest.raises(ValueError, match="the reason"):
        work(ValueError("the reason"))
    if passing:
        work(None)
    else:
        with pytest.raises(CatalogUnreachable):
            work(None)


def test_claims_are_given_back_after_the_database_was_away_for_a_moment(tmp_path: Path) -> None:
    """Its connections were cut, and nobody has used one since."""
    with fresh_database("postgresql", tmp_path, migrated=True) as url, open_catalog(url) as catalog:
        with Claims(catalog, "label") as mine:
            with catalog.writing() as connection:
                assert mine.take(connection, "a")
            with not_accepting_connections(catalog.engine.url):
                pass
        with catalog.reading() as connection:
            assert connection.execute(select(Claim.item)).all() == []


def test_whether_the_holder_of_an_item_lives(catalog: Catalog) -> None:
    with Claims(catalog, "shard") as claims, catalog.writing() as connection:
        assert holder_lives(connection, "shard", "a") is None
        claims.take(connection, "a")
        assert holder_lives(connection, "shard", "a") is True
        silent = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=LEASE_SECONDS + 1)
        connection.execute(update(Claim).values(heartbeat_at=silent))
        assert holder_lives(connection, "shard", "a") is False
        assert holder_lives(connection, "shard", "a", by_age=False) is True
        now = datetime.datetime.now(datetime.UTC)
        gone = this_worker().rpartition("/")[0] + "/1"
        connection.execute(update(Claim).values(heartbeat_at=now, worker=gone))
        assert holder_lives(connection, "shard", "a") is False
        assert holder_lives(connection, "shard", "a", by_age=False) is False
        drop_claim(connection, "shard", "a")
        assert holder_lives(connection, "shard", "a") is None
