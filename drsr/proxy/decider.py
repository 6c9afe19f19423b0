"""Decisions for the proxy: made in worker threads, with a deadline, and discarded if they come too late."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from drsr.decide.decision import Outcome, Reason
from drsr.errors import RequestError, RequestTooLarge
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.forms import Asked, asked_about
from drsr.proxy.http.json_body import as_bytes
from drsr.proxy.log import without_text
from drsr.proxy.reasons import PRUNED, ProxyReason
from drsr.proxy.worker_pool import WorkerPool
from drsr.request.history import Protect
from drsr.request.request import Protocol
from drsr.sessions.conversations import Conversation, Conversations, Trail, trail_of
from drsr.sessions.pruning_session import PruningSession

T = TypeVar("T")

LAST_SECONDS = 1.0
"""Seconds that the proxy, on its way out, waits for reading to be given up and for decisions in progress."""
SPARE_SECONDS = 0.1
"""Maximum number of seconds before the deadline at which waiting for reading ends, to leave time to assemble the
answer."""

_log = logging.getLogger("drsr.proxy")


class Recallable(NamedTuple):
    """The decision that recalls are answered from. It keeps the request alive."""

    body: Any
    """Body to send, before it becomes bytes."""
    outcome: Outcome | None


class Answer(NamedTuple):
    """A decision as far as the proxy needs it. The request itself is kept alive by it only for recalls."""

    id: str
    pruned: bool
    reason: Reason | None
    tokens_before: int | None
    tokens_saved: int
    content: bytes | None
    """Bytes to send if something was removed."""
    receipt: dict[str, Any] | None
    session: Mapping[str, Any] | None
    """In a session: the costs it computed."""
    outside: bool | None
    """True if the request is outside what the policy was calibrated on; None if that is unknown."""
    too_large: bool
    """True if it was not read because of its size."""
    recallable: Recallable | None = None
    """The request as parsed, if the model may ask for what was removed."""


class Decided(NamedTuple):
    """The result of asking the policy."""

    answer: Answer | None
    reason: str
    """`pruned`, or why not."""
    milliseconds: float


class NoRoom(Exception):
    """Too many decisions wait already."""


class Decider:
    """Asks a policy, in bounded time and memory."""

    def __init__(
        self,
        policy: Policy,
        *,
        deadline: float,
        workers: int,
        queue: int,
        conversations: Conversations | None = None,
        protect: Protect | None = None,
        receipts: Callable[[Decision], dict[str, Any]] | None = None,
        late: Callable[[], None] = lambda: None,
        recall: bool = False,
    ) -> None:
        """`receipts` builds the record of a decision if one is wanted; `late` is called, from a worker's thread, with
        every decision finished after its deadline; `recall` keeps the material to answer recalls from."""
        self._policy = policy
        self._recall = recall
        self.deadline = deadline
        """Seconds; may be changed at any time."""
        self._pool = WorkerPool("drsr-decide", workers, queue)
        self._receipts = receipts
        self._late = late
        self._protect = protect
        self.conversations = conversations
        self._asked: set[asyncio.Timeout] = set()
        """Deadline of each decision that is being waited for."""
        self._ending = False

    @property
    def running(self) -> int:
        return self._pool.running

    @property
    def waiting(self) -> int:
        return self._pool.waiting

    async def decide(
        self, body: dict[str, Any], endpoint: Endpoint, credentials: Sequence[tuple[bytes, bytes]]
    ) -> Decided:
        """Decide about one request within the deadline, which includes the wait for a worker. Never raises.

        Reading is given up a little earlier, so that what a session removed before can still be left out in time; it
        continues in the background. Anything else that takes longer is discarded.
        """
        start = time.perf_counter()
        answer, reason = None, str(ProxyReason.BUSY)
        until = start + max(0.9 * self.deadline, self.deadline - SPARE_SECONDS)
        try:
            async with self._in_time():
                answer = await self._ask(body, endpoint, credentials, until)
            reason = PRUNED if answer.pruned else ProxyReason.TOO_LARGE if answer.too_large else str(answer.reason)
            if answer.reason is Reason.DEADLINE_EXCEEDED:
                self._late()
        except NoRoom:
            pass
        except TimeoutError:
            reason = ProxyReason.STOPPING if self._ending else ProxyReason.DEADLINE_EXCEEDED
        except RequestError:
            reason = Reason.UNREADABLE_REQUEST
        except Exception as error:  # whatever it is: the agent goes on with its request
            _log.error("a decision failed: %s", without_text(error))
            reason = Reason.INTERNAL_FAILURE
        return Decided(answer, reason, 1000 * (time.perf_counter() - start))

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Raise TimeoutError after the deadline, and once the proxy is about to end."""
        async with asyncio.timeout(0 if self._ending else self.deadline) as deadline:
            self._asked.add(deadline)
            try:
                yield
            finally:
                self._asked.discard(deadline)

    def give_up(self) -> None:
        """Give up every decision that is being waited for, because the proxy is about to end. Waits for nothing."""
        self._ending = True
        now = asyncio.get_running_loop().time()
        for deadline in self._asked:
            if not deadline.expired():
                deadline.reschedule(now)
        self._abandon_reading(0.0)

    def close(self) -> None:
        """Gives up what is being read and drops decisions that wait; waits a moment for those being made."""
        until = time.monotonic() + LAST_SECONDS
        self._abandon_reading(LAST_SECONDS)
        self._pool.close(finish=False, timeout=max(until - time.monotonic(), 0.0))

    def _abandon_reading(self, timeout: float) -> None:
        if "reader" in self._policy.__dict__:  # it is made when it is first needed
            self._policy.reader.abandon(timeout)

    async def read_ahead(
        self, body: dict[str, Any], protocol: Protocol, credentials: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Read a conversation as far as it is known, for its next decision, when a worker is free. Never raises."""
        try:
            trail: Trail = ()
            if self.conversations is not None:
                trail = await self._run(partial(trail_of, body, protocol, credentials))
            found = self.conversations.known(trail) if self.conversations is not None else None
            reads = self._policy if found is None else found.session
            await self._run(partial(reads.read_ahead, request=body, format=protocol, protect=self._protect))
        except NoRoom:
            pass
        except Exception as error:
            _log.error("reading ahead failed: %s", without_text(error))

    async def _ask(
        self,
        body: dict[str, Any],
        endpoint: Endpoint,
        credentials: Sequence[tuple[bytes, bytes]],
        until: float,
    ) -> Answer:
        if self.conversations is None:
            return await self._run(lambda: self._answer(self._policy, asked_about(body, endpoint), until))

        def read() -> tuple[Asked, Trail]:
            asked = asked_about(body, endpoint)
            return asked, trail_of(asked.request, endpoint.protocol, credentials)

        # In a worker, like all that takes the longer the larger the request is.
        asked, trail = await self._run(read)
        if trail:
            return await self._continue(self.conversations.of(trail), asked, until)
        return await self._run(partial(self._answer, self._policy, asked, until))

    async def _continue(self, conversation: Conversation, asked: Asked, until: float) -> Answer:
        """Make the next decision of a conversation. A late one leaves only one trace in its session: that its request
        was sent unchanged, so the provider has it in its cache."""
        try:
            return await self._decided_in(conversation, asked, until)
        except asyncio.CancelledError:
            whole = conversation.trial()
            whole.went_whole()
            conversation.session = whole
            raise

    async def _decided_in(self, conversation: Conversation, asked: Asked, until: float) -> Answer:
        await conversation.gate.acquire()
        loop = asyncio.get_running_loop()
        trial = conversation.trial()

        def leave(_: object) -> None:
            loop.call_soon_threadsafe(conversation.gate.release)

        # The gate opens when the worker is done, not when we stop waiting for it: the next decision of this
        # conversation would only block a second worker.
        answer = await self._run(partial(self._answer, trial, asked, until), finally_=leave)
        conversation.session = trial
        return answer

    async def _run(self, call: Callable[[], T], finally_: Callable[[object], None] = lambda _: None) -> T:
        """Run it in a worker; raises NoRoom where too many wait already. `finally_` is called when the worker is done,
        from any thread."""
        future = self._pool.submit(call)
        if future is None:
            finally_(None)
            raise NoRoom
        future.add_done_callback(finally_)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():  # it has begun, and nobody waits for it any more
                future.add_done_callback(self._tell_late)
            raise

    def _answer(self, decides: Policy | PruningSession, asked: Asked, until: float) -> Answer:
        prune = partial(decides.prune, session=None) if isinstance(decides, Policy) else decides.prune
        decision = prune(
            request=asked.request,
            format=asked.format,
            protect=asked.protect(self._protect),
            deadline_ms=max(1000 * (until - time.perf_counter()), 1.0),
        )
        content = recallable = None
        if decision.pruned:
            left = asked.carried(decision)
            recallable = Recallable(left, decision.outcome) if self._recall else None
            content = as_bytes(left)
        return Answer(
            id=decision.id,
            pruned=decision.pruned,
            reason=decision.reason,
            tokens_before=decision.tokens_before,
            tokens_saved=decision.tokens_saved,
            content=content,
            receipt=self._receipts(decision) if self._receipts else None,
            session=decision.session,
            outside=None if decision.distance is None else decision.distance.outside,
            too_large=isinstance(decision.error, RequestTooLarge),
            recallable=recallable,
        )

    def _tell_late(self, _: object) -> None:
        self._late()
