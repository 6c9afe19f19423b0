"""Work on frozen states that workers share: one trajectory at a time is claimed, frozen again, worked on, recorded.

Labels and features are both made this way. A killed worker loses only the trajectory it was working on: the next worker
does all of it again, and gets the same numbers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Select, bindparam

import drsr
from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import StateRow, TrajectoryItem, load_states
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.claims import Claims
from drsr.request.contracts import Tokenizer
from drsr.request.view import Caps

Following = Callable[[Connection, int], TrajectoryItem | None]
"""Returns the first trajectory after a position that has states to work on, for `Claims.items`."""
Record = Callable[[Connection], None]
"""Records the outcome of a trajectory, in the write transaction that also gives its claim back."""


@dataclass(slots=True)
class WorkSummary(ABC):
    """The summary of one worker."""

    trajectories: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    """States without a result, by reason."""
    seconds: float = 0.0

    @property
    @abstractmethod
    def done(self) -> int:
        """States with a result."""

    @property
    def states(self) -> int:
        return self.done + self.excluded.total()

    def to_json(self) -> dict[str, Any]:
        return {column.name: getattr(self, column.name) for column in fields(self)} | {"states": self.states}


Summary = TypeVar("Summary", bound=WorkSummary)


class Job(NamedTuple):
    """An order to a worker: the items and the settings."""

    stage: str
    subject: str
    """The labeler or feature view that the results are for."""
    freezing: FreezingRule
    tokenizer: Tokenizer
    caps: Caps
    limit: int | None
    """Stop after the trajectory with which this many states were reached."""
    workers: int = 1
    """The workers that were started together, this one among them."""


def work_through(
    catalog: Catalog,
    artifacts: ArtifactStore,
    job: Job,
    summary: Summary,
    following: Callable[[Collection[int]], Following],
    work: Callable[[TrajectoryItem, list[StateRow]], Record],
    *,
    tidy_up: Callable[[], object] = lambda: None,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Work on what is missing, together with any other workers. Rerunning changes nothing.

    `following` receives the trajectories to leave out: a run whose stored bytes are damaged does not stop the others;
    the error at the end names it.
    """
    started = time.monotonic()
    damaged: dict[int, ArtifactCorrupt] = {}
    with catalog.writing() as connection:
        run_id = start_run(connection, job.stage, job.subject, drsr.__version__)
    waiting = following(damaged)
    with Claims(catalog, job.stage) as claims:
        for item in claims.items(waiting, enough=lambda: job.limit is not None and summary.states >= job.limit):
            try:
                rows = load_states(catalog, artifacts, item, job.tokenizer, job.caps, job.freezing)
            except ArtifactCorrupt as error:
                damaged[item.number] = error
                with catalog.writing() as connection:
                    claims.release(connection, item.claimed_as)
                continue
            if job.workers == 1 and artifacts.local_root is None:
                _expect(catalog, artifacts, waiting, item)
            record = work(item, rows)
            with catalog.writing() as connection:
                record(connection)
                claims.release(connection, item.claimed_as)
            summary.trajectories += 1
            summary.seconds = time.monotonic() - started
            progress(summary)
    tidy_up()
    summary.seconds = time.monotonic() - started
    with catalog.writing() as connection:
        finish_run(connection, run_id, summary.to_json() | {"workers": job.workers})
    if damaged:
        raise _all_damaged(list(damaged.values()))
    return summary


def _expect(catalog: Catalog, artifacts: ArtifactStore, waiting: Following, item: TrajectoryItem) -> None:
    """Have the run that comes next fetched while this one is worked on. Several workers would fetch the same one."""
    with catalog.reading() as connection:
        upcoming = waiting(connection, item.place)
    if upcoming is not None:
        artifacts.expect(upcoming.blob)


def items_behind(pending: Select[Any], claimed_as: str, without: Collection[int]) -> Following:
    """Go through trajectories by their number. `pending` selects `ITEM_COLUMNS` of the states that wait.

    `without` may grow; a claim has the form `claimed_as/number`.
    """
    # Ordered by the states' own column, whose index then gives the first row at once: ordered by the trajectories'
    # id, SQLite sorts all that is left for every item, and the stage costs the square of its length.
    behind = DecisionState.trajectory_id
    query = pending.where(behind > bindparam("cursor")).order_by(behind).limit(1)

    def following(connection: Connection, cursor: int) -> TrajectoryItem | None:
        wanted = query.where(behind.not_in(without)) if without else query
        row = connection.execute(wanted, {"cursor": cursor}).first()
        return None if row is None else TrajectoryItem(row.id, row.blob, row.split, f"{claimed_as}/{row.id}", row.id)

    return following


def _all_damaged(complaints: Sequence[ArtifactCorrupt]) -> ArtifactCorrupt:
    """Return one error for all runs that `load_states` complained about."""
    first = complaints[0]
    if len(complaints) == 1:
        return first
    which = "; ".join(complaint.what for complaint in complaints)
    return ArtifactCorrupt(f"{len(complaints):,} runs: {which}", where=first.where, hint=first.hint)
