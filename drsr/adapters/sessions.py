"""Sessions for an adapter through which many runs go: an agent with many threads, a client or a gateway that is shared.

    sessions = Sessions(policy, prices=Prices(3, 0.3, 3.75, 15), expected_calls=40)
    agent = create_agent(model, tools, middleware=[PruneHistory(sessions)])

Each request finds the session of its own run by the messages it repeats.
"""

from __future__ import annotations

import threading
from typing import Any

from drsr.errors import SettingsError
from drsr.policy.policy import Decision, Policy
from drsr.request.history import Protect
from drsr.request.request import Protocol
from drsr.sessions.conversations import REMEMBERED, Conversations, Trail, trail_of
from drsr.sessions.prices import Prices
from drsr.sessions.pruning_session import check_expected_calls


class Sessions:
    """One `PruningSession` per run, the least recently used forgotten first. Safe to use from several threads."""

    def __init__(self, policy: Policy, *, prices: Prices, expected_calls: int, limit: int = REMEMBERED) -> None:
        """`limit` is how many runs are remembered. Take more than go on at the same time: a run that is forgotten in
        its middle loses what was removed from it, and with that its place in the provider's cache."""
        check_expected_calls(expected_calls)  # now, and not with the first request
        if not isinstance(limit, int) or limit < 1:
            raise SettingsError(f"the number of runs that are remembered must be at least 1, not {limit!r}")
        self.policy = policy
        self.forgotten = 0
        """How many runs had to go to make room; where this grows steadily, raise `limit`."""
        self._conversations = Conversations(
            lambda: policy.session(prices, expected_calls), limit, self._count_forgotten
        )
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._conversations)

    def _count_forgotten(self) -> None:
        self.forgotten += 1  # by `Conversations.of`, which is called under the lock

    def prune(
        self,
        *,
        request: Any,
        format: Protocol,
        protect: Protect | None = None,
        deadline_ms: float | None = None,
    ) -> Decision:
        """Like `Policy.prune`, with the session of the run that the request belongs to."""
        trail = _trail(request, format)
        if not trail:
            return self.policy.prune(request=request, format=format, protect=protect, deadline_ms=deadline_ms)
        with self._lock:
            conversation = self._conversations.of(trail)
            session = conversation.trial()
        decision = session.prune(request=request, format=format, protect=protect, deadline_ms=deadline_ms)
        with self._lock:
            conversation.session = session
        return decision

    def read_ahead(self, *, request: Any, format: Protocol, protect: Protect | None = None) -> bool:
        """Like `Policy.read_ahead`, with the session of the run that the request belongs to."""
        trail = _trail(request, format)
        if not trail:
            return False
        with self._lock:
            session = self._conversations.of(trail).session
        return session.read_ahead(request=request, format=format, protect=protect)


def _trail(request: Any, format: Protocol) -> Trail:
    try:
        return trail_of(request, format, ())
    except (TypeError, ValueError, RecursionError):  # no JSON: the policy says what is wrong with it
        return ()
