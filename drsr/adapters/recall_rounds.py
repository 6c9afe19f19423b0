"""Recall answered in transit: a call of `recall_history` is answered here, and the program never sees it.

The model is asked again with what it recalled appended after its own answer, a few times at most; after that, and
whenever something goes wrong, the request is sent in its original form, with nothing removed. So the program always
gets an answer to its own request. What it stores is not changed: what was recalled is there for this one answer only.
An answer that is not understood and contains no recall goes to the program unchanged.

Calls of other tools next to a recall are not carried out, and the model learns so: with its history back it may want
different ones.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from drsr.adapters.forms import Form, as_json
from drsr.adapters.pruner import Pruner, bypassed
from drsr.adapters.recall_wires import ToolCall
from drsr.decide.decision import Outcome
from drsr.receipts.recall import RECALL, Recalled, recalled

ROUNDS = 3
"""Number of times a model may recall before one answer."""
REFUSED = (400, 422)
"""Statuses that can be due to the tool: too many tools, or not with these settings. Such a request cost nothing."""
NOT_RUN = f"Not run: {RECALL} was answered first. Call it again if it is still needed."

_log = logging.getLogger("drsr")

B = TypeVar("B")
A = TypeVar("A")


class Wire(Protocol[B, A]):
    """Requests and answers of one kind."""

    def offered(self, body: B) -> B | None:
        """Return the request with the tool; None if the request has no other tools, or if a call could not be
        answered."""

    def calls(self, answer: A) -> Sequence[ToolCall]:
        """Return all calls of an answer. May raise anything if it does not understand the answer."""

    def continued(self, body: B, answer: A, results: Sequence[tuple[str, str]]) -> B:
        """Return the request with the answer and the results of its calls, by their ids."""

    def reckoned(self, answer: A, unseen: Sequence[A]) -> A:
        """Return the answer with the usage of those that the program does not see added to its own."""


class Rounds(Generic[B, A]):
    """The requests sent instead of one request of the program: `body` first, then whatever `following` returns."""

    def __init__(self, wire: Wire[B, A], original: B, body: B, outcome: Outcome | None) -> None:
        """`original` is the request as received, `body` what the policy left of it, with the tool."""
        self.wire = wire
        self.original = original
        self.body = body
        self.unseen: list[A] = []
        self.given_up = False
        """True if the last request is the program's own: its answer is passed on, whatever it is."""
        self._outcome = outcome
        self._names = frozenset(block.name for block in outcome.removed) if outcome else frozenset()
        self._recalled: list[str] = []

    @property
    def recalled(self) -> Recalled | None:
        """Everything recalled so far; None if nothing was, and nothing else made us send the original request."""
        if not self.unseen and not self.given_up:
            return None
        return Recalled(len(self.unseen), tuple(dict.fromkeys(self._recalled)))

    def following(self, answer: A) -> B | None:
        """Return the request to send next; None if this answer goes to the program."""
        if self.given_up:
            return None
        try:
            calls = self.wire.calls(answer)
        except Exception:  # whatever it is, it may still be what the program waits for
            return self.not_understood(answer, recalls=_recalls(answer))
        if not any(call.name == RECALL for call in calls):
            return None
        self.unseen.append(answer)
        try:
            results = [(call.id, self._result(call)) for call in calls]
            following = self.wire.continued(self.body, answer, results)
        except Exception:  # the program's own request has nothing to do with it
            return self.give_up()
        if len(self.unseen) > ROUNDS:
            return self.give_up()
        self.body = following
        return following

    def not_understood(self, answer: A, *, recalls: bool) -> B | None:
        """Return the same for an answer that cannot be read. It goes to the program unless it seems to recall, or
        answers an exchange of ours: then it is paid for and not shown."""
        if self.given_up or not (recalls or self.unseen):
            return None
        self.unseen.append(answer)
        return self.give_up()

    def after_error(self, status: int | None) -> B | None:
        """Return the request to send next if there was no answer; None if the error goes to the program."""
        return None if self.given_up or not (self.unseen or status in REFUSED) else self.give_up()

    def reckoned(self, answer: A) -> A:
        """Return the program's answer, with the usage of all."""
        if not self.unseen:
            return answer
        try:
            return self.wire.reckoned(answer, self.unseen)
        except Exception as error:  # its text could quote the answer
            _log.warning("the usage of %d recalls was not added up: %s", len(self.unseen), type(error).__name__)
            return answer

    def give_up(self) -> B:
        """Return the program's own request; its answer is handed on, whatever it is."""
        self.given_up = True
        return self.original

    def _result(self, call: ToolCall) -> str:
        if call.name != RECALL:
            return NOT_RUN
        if call.wanted in self._names:
            self._recalled.append(call.wanted)
        return recalled(self._outcome, call.wanted)


def asked(
    pruner: Pruner,
    wire: Wire[B, A] | None,
    native: B,
    read: Callable[[B], Form[B]],
    ask: Callable[[B], A],
    model: str | None = None,
) -> A:
    """Ask the model with what the policy leaves of a request, and with what it then recalls. `wire` is None if it
    cannot recall anything."""
    offered = _offered(pruner, wire, native)
    if wire is None or offered is None:
        return ask(pruner.view(native, read, model))
    sent, decision = pruner.decide(offered, read, model)
    rounds, body = Rounds(wire, native, sent, decision.outcome), sent
    try:
        while True:
            try:
                answer = ask(body)
            except Exception as error:
                following = rounds.after_error(getattr(error, "status_code", None))
                if following is None:
                    raise
            else:
                following = rounds.following(answer)
                if following is None:
                    return rounds.reckoned(answer)
            body = following
    finally:
        pruner.tell_recalled(decision, rounds.recalled)


async def asked_async(
    pruner: Pruner,
    wire: Wire[B, A] | None,
    native: B,
    read: Callable[[B], Form[B]],
    ask: Callable[[B], Awaitable[A]],
    model: str | None = None,
) -> A:
    """Return the same for an event loop."""
    offered = _offered(pruner, wire, native)
    if wire is None or offered is None:
        return await ask(await pruner.view_in_thread(native, read, model))
    sent, decision = await pruner.decide_in_thread(offered, read, model)
    rounds, body = Rounds(wire, native, sent, decision.outcome), sent
    try:
        while True:
            try:
                answer = await ask(body)
            except Exception as error:
                following = rounds.after_error(getattr(error, "status_code", None))
                if following is None:
                    raise
            else:
                following = rounds.following(answer)
                if following is None:
                    return rounds.reckoned(answer)
            body = following
    finally:
        pruner.tell_recalled(decision, rounds.recalled)


def _offered(pruner: Pruner, wire: Wire[B, A] | None, native: B) -> B | None:
    """Return the request with the tool; in shadow mode nothing goes, so nothing can be recalled."""
    if wire is None or not pruner.recall or pruner.shadow or bypassed():
        return None
    try:
        return wire.offered(native)
    except Exception as error:  # whatever it is: without the tool the call goes on; may quote the request
        _log.warning("recall is not offered for a request: %s", type(error).__name__)
        return None


def _recalls(answer: Any) -> bool:
    """Return whether an answer of whatever form holds a call of the tool. Some repeat the tools they were given."""
    try:
        return _holds_call(as_json(answer))
    except Exception:
        return True


def _holds_call(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("name") == RECALL or any(_holds_call(value[name]) for name in value if name != "tools")
    return isinstance(value, list) and any(map(_holds_call, value))
