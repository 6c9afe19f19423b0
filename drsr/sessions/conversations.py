"""Conversations: requests that each repeat the messages of the one before and add some at the end.

A conversation keeps a `PruningSession`, so that what was removed from it stays removed and the provider's prompt cache
stays of use. Only hashes are kept of the messages, and of the keys that callers send only a keyed hash.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from drsr.sessions.pruning_session import PruningSession

REMEMBERED = 2_000
"""Default number of conversations remembered at once: many more than run at the same time. Each takes four bytes per
token of its last request and a few kilobytes; the backbone's state is kept elsewhere, in a store of fixed size that all
share. Forgetting a conversation that continues costs money: what was removed from it comes back, and its cached prefix
is lost."""

ENDS_KEPT = 32
"""Requests of a conversation that are recognised as the beginning of a branch."""

_OF_THIS_PROCESS = secrets.token_bytes(32)

Trail = tuple[bytes, ...]
"""A hash for every beginning of a request's messages, the whole at the end."""


class Conversation:
    """One run of one caller."""

    def __init__(self, session: PruningSession, gate: asyncio.Lock) -> None:
        self.session = session
        """Session as of the last decision that was sent. Decisions are made on a copy of it, see `branch`."""
        self.gate = gate
        """Held while a decision is made: the copies share the backbone's state."""
        self.ends: deque[bytes] = deque()
        """The last hashes of its requests, the latest at the end."""

    def trial(self) -> PruningSession:
        """Return the session to make a decision with; it takes the place of `session` once the decision is sent."""
        return branch(self.session)


def branch(session: PruningSession) -> PruningSession:
    """Return a session that continues from the same point without changing the given one.

    A session replaces what it remembers and never changes it in place, so a shallow copy is enough. Both keep sharing
    the backbone's state and the lock that guards it.
    """
    return copy.copy(session)


class Conversations:
    """The conversations of one proxy; the least recently used is forgotten first. For one event loop."""

    def __init__(
        self, begin: Callable[[], PruningSession], limit: int = REMEMBERED, forgot: Callable[[], None] = lambda: None
    ) -> None:
        """`forgot` is called with every conversation that is forgotten to make room."""
        self._begin = begin
        self._limit = limit
        self._forgot = forgot
        self._has_forgotten = False
        self._recent: OrderedDict[int, Conversation] = OrderedDict()
        self._by_end: dict[bytes, Conversation] = {}

    def __len__(self) -> int:
        return len(self._recent)

    def of(self, trail: Trail) -> Conversation:
        """Return the conversation that a request continues or repeats, else a new one.

        Two requests that continue the same earlier one (parallel samples, a run taken back) are two branches: the
        second gets a conversation of its own, which starts from the same session.
        """
        known = next((end for end in reversed(trail) if end in self._by_end), None)
        if known is None:
            session = self._begin()
            session.may_be_lost = self._has_forgotten
            found = self._new(session, asyncio.Lock())
        else:
            found = self._by_end[known]
            if found.ends[-1] != known:
                found = self._new(branch(found.session), found.gate)
        self._recent.move_to_end(id(found))
        self._end(found, trail[-1])
        return found

    def known(self, trail: Trail) -> Conversation | None:
        """Return the conversation that a request continues or repeats, if there is one. Nothing is begun or
        remembered."""
        return next((self._by_end[end] for end in reversed(trail) if end in self._by_end), None)

    def _new(self, session: PruningSession, gate: asyncio.Lock) -> Conversation:
        conversation = Conversation(session, gate)
        self._recent[id(conversation)] = conversation
        while len(self._recent) > self._limit:
            _, forgotten = self._recent.popitem(last=False)
            self._has_forgotten = True
            self._forgot()
            for end in forgotten.ends:
                self._forget(end, forgotten)
        return conversation

    def _end(self, conversation: Conversation, end: bytes) -> None:
        if conversation.ends and conversation.ends[-1] == end:
            return
        conversation.ends.append(end)
        self._by_end[end] = conversation
        while len(conversation.ends) > ENDS_KEPT:
            self._forget(conversation.ends.popleft(), conversation)

    def _forget(self, end: bytes, conversation: Conversation) -> None:
        if self._by_end.get(end) is conversation:
            del self._by_end[end]


def trail_of(body: dict[str, Any], protocol: str, credentials: Sequence[tuple[bytes, bytes]]) -> Trail:
    """Return the trail of a request; empty if it has no messages, or none that could be pruned.

    It begins with everything that a provider's cache depends on: caller, model, system prompt and tools.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ()
    head = [body.get(field) for field in ("model", "system", "tools", "functions")]
    trail = []
    try:
        last = hmac.digest(_OF_THIS_PROCESS, repr((protocol, list(credentials))).encode() + _bytes(head), "sha256")
        for message in messages:
            last = hashlib.sha256(last + _bytes(message)).digest()
            trail.append(last)
    except RecursionError:  # nested more deeply than a policy reads
        return ()
    return tuple(trail)


def _bytes(value: Any) -> bytes:
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """Without cache marks, which clients move along from request to request, and with plain text as a string."""
    if isinstance(value, dict):
        plain = {key: _plain(item) for key, item in value.items() if key != "cache_control"}
        content = plain.get("content")
        if isinstance(content, list) and len(content) == 1 and _is_text(content[0]):
            plain["content"] = content[0]["text"]
        return plain
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() == {"type", "text"} and part["type"] == "text"
