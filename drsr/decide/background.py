"""Reading in the background: a decision waits for its features until a deadline, and the reading continues after it.

    reader = BackgroundReader(representation.session)
    reader.by(deadline).features(state)     # the features, or NotInTime
    reader.read_ahead(state)                # for the next decision of the run; nothing waits for it

The run's next request finds what was read, because a session keeps the model's state. No run is waited for twice: while
a run is still being read, a further request of it gets NotInTime at once, and is read next in place of older ones.

One thread reads, and ends when there is nothing left to read. At the interpreter's end it stops at the next 256 tokens.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from drsr.decide.candidates import DecisionState
from drsr.features.spans import prefix_hash
from drsr.features.vectors import CandidateFeatures
from drsr.request.contracts import TokenIds
from drsr.request.rendering import common_prefix
from drsr.request.tokens_read import note, noting

WAITING = 8
"""Number of runs that may wait to be read. Each keeps only its latest request; runs beyond that are refused."""
FINISHED = 8
"""Features kept in case the very same request comes again, as from a client that retries."""
SAME_RUN = 0.5
"""Two requests belong to the same run if the later one repeats at least this share of the earlier one's tokens."""
LAST_SECONDS = 3.0
"""Seconds for which the interpreter waits for the thread when it exits."""

GiveUp = Callable[[], bool]
"""Asked between pieces of a long reading: True ends it by Interrupted."""


class NotInTime(Exception):
    """The features are not there yet. Its text says why, without a word of the request."""


class Interrupted(Exception):
    """Reading was given up."""


class SessionSource(Protocol):
    """Gives the features of a state, reading only what the run's earlier states have not said."""

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures: ...


class _Job:
    """One state to be read."""

    def __init__(self, state: DecisionState, key: str) -> None:
        self.state = state
        self.key = key
        self.token_ids = state.view.token_ids(state.rendering.token_ids)
        self.done = threading.Event()
        self.features: CandidateFeatures | None = None
        self.read: list[TokenIds] = []
        self.error: BaseException | None = None
        self.waited = False
        """True once a decision has waited for this job; later decisions of the same run then do not wait."""

    def run(self, source: SessionSource, give_up: GiveUp) -> None:
        try:
            with noting() as self.read:
                self.features = source.features(self.state, give_up)
        except BaseException as error:
            self.error = error
        self.done.set()

    def result(self) -> CandidateFeatures:
        """Return the features once reading is done. What was read counts as read for every decision that takes it."""
        if self.features is None:
            assert self.error is not None
            raise self.error
        for token_ids in self.read:
            note(token_ids)
        return self.features

    def is_of_run(self, token_ids: TokenIds) -> bool:
        return common_prefix(self.token_ids, token_ids) >= SAME_RUN * len(self.token_ids)


class BackgroundReader:
    """Reads for one policy. Safe to use from several threads; what is in flight is bounded."""

    def __init__(self, session: Callable[[], SessionSource]) -> None:
        """`session` opens what remembers the runs; it is called once, in the background."""
        self._open = session
        self._source: SessionSource | None = None
        self._lock = threading.Lock()
        self._reading: _Job | None = None
        self._waiting: list[_Job] = []
        self._finished: OrderedDict[str, _Job] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._abandoned: _Job | None = None
        _readers.add(self)

    def by(self, deadline: float) -> TimedSource:
        """Return a source that waits until `time.perf_counter()` reaches the deadline."""
        return TimedSource(self, deadline)

    @property
    def in_flight(self) -> int:
        """States that are read or wait to be."""
        return len(self._waiting) + (self._reading is not None)

    def features(self, state: DecisionState, deadline: float) -> CandidateFeatures:
        """Return the features of a state, or raise NotInTime; errors of the reading are raised here."""
        key = prefix_hash(state)
        with self._lock:
            job = self._finished.get(key)
            if job is None:
                waited = any(known.waited for known in self._of_run(state))
                job = self._put(state, key)
                if waited:
                    raise NotInTime("an earlier request of this run is still being read")
                if job is None:
                    raise NotInTime(f"{WAITING} other runs wait to be read")
                job.waited = True
        if not job.done.wait(max(deadline - time.perf_counter(), 0.0)):
            raise NotInTime("reading goes on for the next request of this run")
        return job.result()

    def read_ahead(self, state: DecisionState) -> bool:
        """Read a state when there is time. Return False if too many wait already."""
        key = prefix_hash(state)
        with self._lock:
            return key in self._finished or self._put(state, key) is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is in flight; return False on timeout."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()

    def abandon(self, timeout: float = LAST_SECONDS) -> None:
        """Give up what is in flight; what comes later is read."""
        with self._lock:
            self._waiting.clear()
            self._abandoned = self._reading
        self.wait(timeout)

    def stop(self, timeout: float = LAST_SECONDS) -> None:
        """Give up what is in flight, and read nothing more."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()
        self.wait(timeout)

    def _of_run(self, state: DecisionState) -> list[_Job]:
        """Return the states of this run that are in flight."""
        token_ids = state.view.token_ids(state.rendering.token_ids)
        in_flight = [*self._waiting, *([self._reading] if self._reading is not None else [])]
        return [job for job in in_flight if job.is_of_run(token_ids)]

    def _put(self, state: DecisionState, key: str) -> _Job | None:
        """Queue a state and return its job; it replaces the request of the same run that is waiting. Return None if the
        queue is full."""
        for known in self._of_run(state):
            if known.key == key:
                return known
            if known is not self._reading:
                job = _Job(state, key)
                job.waited = known.waited
                self._waiting[self._waiting.index(known)] = job
                return job
        return self._submit(state, key)

    def _submit(self, state: DecisionState, key: str) -> _Job | None:
        if self._stopped or len(self._waiting) >= WAITING:
            return None
        job = _Job(state, key)
        self._waiting.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="drsr-reader", daemon=True)
            self._thread.start()
        return job

    def _work(self) -> None:
        while True:
            with self._lock:
                self._reading = self._waiting.pop(0) if self._waiting else None
                job = self._reading
                if job is None:
                    self._thread = None
                    return
            self._read(job)
            with self._lock:
                self._reading = None
                if job.features is not None:
                    self._finished[job.key] = job
                while len(self._finished) > FINISHED:
                    self._finished.popitem(last=False)

    def _read(self, job: _Job) -> None:
        try:
            if self._source is None:
                self._source = self._open()
        except BaseException as error:  # whoever waits is told, and the next state tries again
            job.error = error
            job.done.set()
            return
        job.run(self._source, lambda: self._stopped or self._abandoned is job)


class TimedSource:
    """The source of features for one decision."""

    def __init__(self, reader: BackgroundReader, deadline: float) -> None:
        self._reader = reader
        self._deadline = deadline

    def features(self, state: DecisionState) -> CandidateFeatures:
        return self._reader.features(state, self._deadline)


_readers: weakref.WeakSet[BackgroundReader] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop the reader: a thread inside a matrix product when the interpreter shuts down would take the process with
    it."""
    for reader in list(_readers):
        reader.stop()
