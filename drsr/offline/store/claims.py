"""Claims of workers on items, so that several share a stage and the items of a dead one are taken over.

A claim is a courtesy, not a lock: two workers on one item would write the same rows once. A worker renews its claims
every few seconds; a worker that has not done so for a minute, or whose process is gone from this host, has lost them.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, bindparam, delete, select, update

from drsr.errors import CatalogUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.label_tables import Claim
from drsr.offline.catalog.statements import insert_new
from drsr.offline.catalog.workers import is_gone, this_worker

LEASE_SECONDS = 60.0
"""A claim that was not renewed for so long is free."""
HEARTBEAT_SECONDS = 10.0
POLL_SECONDS = 0.5
"""Seconds between checks whether other workers' items are done, or free again because the worker died."""


class Item(Protocol):
    """Something to work on. Items have an order, so that a worker goes through them once before it comes back."""

    @property
    def place(self) -> int:
        """Its place in the order, from 1."""
        ...

    @property
    def claimed_as(self) -> str:
        """The contents of a claim."""
        ...


AnyItem = TypeVar("AnyItem", bound=Item)

# Put together once, for every item needs them.
_OF_ITEM = (Claim.stage == bindparam("of_stage"), Claim.item == bindparam("of_item"))
_HOLDER = select(Claim.worker, Claim.heartbeat_at).where(*_OF_ITEM)
_RELEASED = delete(Claim).where(*_OF_ITEM, Claim.worker == bindparam("of_worker"))


def holder_lives(connection: Connection, stage: str, item: str, *, by_age: bool = True) -> bool | None:
    """Return whether the worker that claimed an item seems to be alive; None if it is not claimed.

    Without `by_age` an old claim is not a sign of death: claims cannot be renewed while the catalog is away.
    """
    row = connection.execute(_HOLDER, {"of_stage": stage, "of_item": item}).one_or_none()
    if row is None:
        return None
    worker, heartbeat_at = row
    return _lives(worker, heartbeat_at) if by_age else not is_gone(worker)


class Holder(NamedTuple):
    """The process that has claimed an item."""

    item: str
    worker: str
    lives: bool

    @property
    def shown(self) -> str:
        host, pid, _ = self.worker.rsplit("/", 2)
        return f"process {pid} on {host.partition('/')[0]}"


def holders(connection: Connection, stage: str | None = None) -> list[Holder]:
    """Return all claims on a stage, or on any, by item."""
    query = select(Claim.item, Claim.worker, Claim.heartbeat_at).order_by(Claim.item)
    if stage is not None:
        query = query.where(Claim.stage == stage)
    return [Holder(item, worker, _lives(worker, at)) for item, worker, at in connection.execute(query)]


def require_nobody_else(connection: Connection, where: str) -> None:
    """Raise CatalogUnreachable while a living worker has claimed anything."""
    living = [holder for holder in holders(connection) if holder.lives]
    if living:
        what = f"{living[0].shown} is at work on this catalog"
        raise CatalogUnreachable(what, where=where, hint="try again when it has ended", passing=True)


@contextmanager
def alone(catalog: Catalog, stage: str, item: str) -> Iterator[None]:
    """Hold an item within the block. Other workers wait for it as long as this one lives."""
    with Claims(catalog, stage) as claims:
        while True:
            with catalog.writing() as connection:
                if claims.take(connection, item):
                    break
            time.sleep(POLL_SECONDS)
        yield


def drop_claim(connection: Connection, stage: str, item: str) -> None:
    """Forget the claim of a worker that is given up, in the caller's write transaction."""
    connection.execute(delete(Claim).where(Claim.stage == stage, Claim.item == item))


def _lives(worker: str, heartbeat_at: datetime.datetime) -> bool:
    age = (datetime.datetime.now(datetime.UTC) - heartbeat_at).total_seconds()
    return age < LEASE_SECONDS and not is_gone(worker)


class Claims:
    """The claims of this worker on one stage, renewed by a thread while it is open."""

    def __init__(self, catalog: Catalog, stage: str) -> None:
        self._catalog = catalog
        self._stage = stage
        self._worker = this_worker()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Claims:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join()
        for _ in range(2):  # a connection that was cut meanwhile shows only when it is used, and is replaced then
            try:
                with self._catalog.writing() as connection:
                    connection.execute(delete(Claim).where(Claim.stage == self._stage, Claim.worker == self._worker))
                return
            except CatalogUnreachable as failure:
                # Left behind, they are free after a minute, or once this process has ended. That must neither end what
                # was done well nor hide why it was not.
                if failure.passing:
                    continue
                if error is None:
                    raise
                return

    def take(self, connection: Connection, item: str) -> bool:
        """Claim an item inside the caller's write transaction; False while another living worker has it."""
        now = datetime.datetime.now(datetime.UTC)
        row = connection.execute(_HOLDER, {"of_stage": self._stage, "of_item": item}).one_or_none()
        if row is None:
            values = {"stage": self._stage, "item": item, "worker": self._worker, "heartbeat_at": now}
            insert_new(connection, Claim, [values])
            return True
        holder, heartbeat_at = row
        if holder != self._worker and _lives(holder, heartbeat_at):
            return False
        mine = update(Claim).where(Claim.stage == self._stage, Claim.item == item)
        connection.execute(mine.values(worker=self._worker, heartbeat_at=now))
        return True

    def release(self, connection: Connection, item: str) -> None:
        """Give an item back, in the transaction that records its result."""
        connection.execute(_RELEASED, {"of_stage": self._stage, "of_item": item, "of_worker": self._worker})

    def items(
        self, following: Callable[[Connection, int], AnyItem | None], enough: Callable[[], bool]
    ) -> Iterator[AnyItem]:
        """Yield claimed items, one at a time, until living workers hold all that are left, or the limit is reached.

        `following` returns the first unfinished item after a position. One pass in their order; then again over what
        others had claimed, until it is done or its worker is dead.
        """
        cursor = 0
        while not enough():
            with self._catalog.writing() as connection:
                item = following(connection, cursor)
                taken = item is not None and self.take(connection, item.claimed_as)
            if item is None and cursor == 0:
                return
            if item is None:
                cursor = 0
                time.sleep(POLL_SECONDS)
                continue
            cursor = item.place
            if taken:
                yield item

    def _renew(self) -> None:
        while not self._closed.wait(HEARTBEAT_SECONDS):
            # A catalog that fails now may answer in time for the next heartbeat. If it does not, the worker tells: it
            # has to write there too.
            with suppress(Exception), self._catalog.writing() as connection:
                mine = update(Claim).where(Claim.stage == self._stage, Claim.worker == self._worker)
                connection.execute(mine.values(heartbeat_at=datetime.datetime.now(datetime.UTC)))
