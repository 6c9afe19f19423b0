"""Sessions of many runs at once: an agent with many threads, a client or a gateway that is shared.

    sessions = Sessions(policy)
    agent = create_agent(model, tools, middleware=[PruneHistory(sessions)])

Each request finds the session of its own run by the messages it repeats. `Policy.prune` and every adapter that is given
a policy do the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from drsr.decide.minimums import Minimums
from drsr.errors import SettingsError
from drsr.request.history import Protect
from drsr.sessions.conversations import REMEMBERED, Conversations, Trail, trail_of
from drsr.sessions.price_table import PriceTable, model_of
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import PruningSession, check_expected_calls

if TYPE_CHECKING:
    from drsr.policy.answer import Decision
    from drsr.policy.policy import Format, Policy


class Sessions:
    """One `PruningSession` per run, the least recently used forgotten first. Safe to use from several threads."""

    def __init__(
        self,
        policy: Policy,
        *,
        prices: Prices | PriceTable | None = None,
        expected_calls: int | None = None,
        limit: int = REMEMBERED,
        joined_runs_are_cached: bool = True,
    ) -> None:
        """`prices` are one set for every model, or a table by model; by default the policy's table.

        `limit` is the number of runs remembered. Choose more than run at the same time: a run forgotten midway gets
        back what was removed from it, and so loses its place in the provider's cache. `joined_runs_are_cached` says
        whether a run whose first request here already has a history was sent to the provider before.
        """
        check_expected_calls(expected_calls)  # now, and not with the first request
        if not isinstance(limit, int) or limit < 1:
            raise SettingsError(f"the number of runs that are remembered must be at least 1, not {limit!r}")
        self.policy = policy
        self.forgotten = 0
        """Number of runs forgotten to make room; if this grows steadily, raise `limit`."""

        def begin() -> PruningSession:
            session = policy.session(prices, expected_calls)
            session.joins_cached = joined_runs_are_cached
            return session

        self._conversations = Conversations(begin, limit, self._count_forgotten)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._conversations)

    def _count_forgotten(self) -> None:
        self.forgotten += 1  # by `Conversations.of`, which is called under the lock

    def prune(
        self,
        *,
        request: Any,
        format: Format = "auto",
        model: str | None = None,
        protect: Protect | None = None,
        deadline_ms: float | None = None,
        minimums: Minimums | None = None,
    ) -> Decision:
        """Do the same as `PruningSession.prune`, with the session of the run that the request belongs to."""
        model = model or model_of(request)
        trail = _trail(request, format, model)
        conversation = None
        if trail:
            with self._lock:
                conversation = self._conversations.of(trail)
                session = conversation.trial()
        else:
            session = self.policy.session()  # of no run: it is decided on its own and forgotten
            session.joins_cached = False
        decision = session.prune(
            request=request, format=format, model=model, protect=protect, deadline_ms=deadline_ms, minimums=minimums
        )
        if conversation is not None:
            with self._lock:
                conversation.session = session
        return decision

    def read_ahead(
        self, *, request: Any, format: Format = "auto", model: str | None = None, protect: Protect | None = None
    ) -> bool:
        """Do the same as `Policy.read_ahead`, with the session of the run that the request belongs to."""
        trail = _trail(request, format, model or model_of(request))
        if not trail:
            return False
        with self._lock:
            session = self._conversations.of(trail).session
        return session.read_ahead(request=request, format=format, protect=protect)


def _trail(request: Any, format: Format, model: str | None) -> Trail:
    body = {"messages": request} if isinstance(request, list) else request
    if not isinstance(body, dict):
        return ()
    try:
        return trail_of({**body, "model": model}, format, ())
    except (TypeError, ValueError, RecursionError):  # no JSON: the policy says what is wrong with it
        return ()
