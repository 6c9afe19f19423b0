"""The rules of a valid tool conversation, and the violations found in one.

Call ids repeat along real trajectories, so a result is paired with the nearest preceding open call of its id, never
through a table of ids. Within one message, calls that share an id are answered in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from drsr.request.parts import Call, Message, PartRef, Result
from drsr.request.request import Request
from drsr.tables import excerpt


class ViolationKind(StrEnum):
    RESULT_WITHOUT_CALL = "result_without_call"
    """A result whose id no preceding open call has."""
    CALL_WITHOUT_RESULT = "call_without_result"
    """A call without a result, in any Step but the last."""
    RESULT_OUT_OF_PLACE = "result_out_of_place"
    """A result that does not directly follow its call's message (Anthropic: or comes after other blocks)."""
    EMPTY_ASSISTANT_MESSAGE = "empty_assistant_message"
    """An assistant message without text, reasoning or call."""
    FIRST_MESSAGE_NOT_USER = "first_message_not_user"
    """Anthropic: the first message is not the user's."""


class Violation(NamedTuple):
    kind: ViolationKind
    message: int
    """Index of the message that breaks the rule."""
    detail: str
    """The offending item, usually the call's id."""

    @property
    def place(self) -> str:
        """Return the rule and the place, without any text of the request."""
        return f"{self.kind} at message {self.message}"

    def __str__(self) -> str:
        return self.place + (f" ({excerpt(self.detail)})" if self.detail else "")


class Pairing(NamedTuple):
    """The calls of a request, each with the result that answers it."""

    result_of: dict[PartRef, PartRef]
    """Result of each call."""
    unanswered: list[PartRef]
    """Calls without a result, in order."""
    orphans: list[PartRef]
    """Results without a call, in order."""


def pair_calls(request: Request) -> Pairing:
    """Pair every result with the nearest preceding open call of its id. One pass over the messages."""
    open_calls: dict[str, list[list[PartRef]]] = {}  # id -> per message (nearest last) the calls still open, in order
    result_of: dict[PartRef, PartRef] = {}
    orphans: list[PartRef] = []
    for index, message in enumerate(request.messages):
        for number, call_id in message.results:
            waiting = open_calls.get(call_id)
            if not waiting:
                orphans.append(PartRef(index, number))
                continue
            result_of[waiting[-1].pop(0)] = PartRef(index, number)
            if not waiting[-1]:
                waiting.pop()
        if not message.calls:
            continue
        opened: dict[str, list[PartRef]] = {}
        for number, call_id in message.calls:
            opened.setdefault(call_id, []).append(PartRef(index, number))
        for call_id, calls in opened.items():
            open_calls.setdefault(call_id, []).append(calls)
    unanswered = sorted(call for groups in open_calls.values() for calls in groups for call in calls)
    return Pairing(result_of, unanswered, orphans)


def violations(request: Request) -> list[Violation]:
    """Return every rule that the request breaks, in message order."""
    plain = _plain_violations(request)
    return _all_violations(request) if plain is None else plain


def is_plain(request: Request) -> bool:
    """Return whether every result directly follows its call's message, and nothing is broken but calls without one."""
    return _plain_violations(request) is not None


def is_answered(messages: Sequence[Message]) -> bool:
    """Return whether some messages in a row are plain, break nothing, and answer all of their calls."""
    found = _plain_pass(messages)
    return found is not None and not found.unanswered and not found.waiting


class _PlainPass(NamedTuple):
    unanswered: list[Violation]
    """Calls without a result, but for those that wait at the end."""
    caller: int
    """Index of the last assistant message; -1 if there is none."""
    waiting: set[str]
    """Ids of its calls that are not answered yet."""


def _plain_pass(messages: Sequence[Message]) -> _PlainPass | None:
    """Make one short pass over messages in which every result directly follows its call's message and the only possible
    violation is an unanswered call; return None if anything else is found.

    Most requests are like that. No result can then belong to an earlier call: it answers a call of the last assistant
    message, which is the nearest that has its id.
    """
    found: list[Violation] = []
    waiting: set[str] = set()
    caller = -1
    for index, message in enumerate(messages):
        for place, (number, call_id) in enumerate(message.results):
            if place != number or call_id not in waiting:
                return None
            waiting.remove(call_id)
        if message.role == "tool" and not message.calls:
            continue
        found += [Violation(ViolationKind.CALL_WITHOUT_RESULT, caller, call_id) for call_id in waiting]
        waiting = {call_id for _, call_id in message.calls}
        if message.role == "assistant":
            caller = index
            if message.is_empty or message.results or len(waiting) != len(message.calls):
                return None
        elif waiting:
            return None
    return _PlainPass(found, caller, waiting)


def _plain_violations(request: Request) -> list[Violation] | None:
    """Return the violations of a plain request; None if the request is not plain."""
    found = _plain_pass(request.messages)
    if found is None or (request.protocol == "anthropic" and request.messages and request.messages[0].role != "user"):
        return None
    open_before = (violation for violation in found.unanswered if violation.message != found.caller)
    return sorted(open_before, key=_in_order)  # without the last Step's calls, which may be open


def _all_violations(request: Request) -> list[Violation]:
    found: list[Violation] = []
    messages = request.messages
    assistants = [index for index, message in enumerate(messages) if message.role == "assistant"]
    last_step = assistants[-1] if assistants else -1
    pairing = pair_calls(request)

    for ref in pairing.orphans:
        found.append(Violation(ViolationKind.RESULT_WITHOUT_CALL, ref.message, _id_at(request, ref)))
    for ref in pairing.unanswered:
        if ref.message != last_step:
            found.append(Violation(ViolationKind.CALL_WITHOUT_RESULT, ref.message, _id_at(request, ref)))
    in_place = _results_in_place(request)
    for call, result in pairing.result_of.items():
        if in_place.get(result) != call.message:
            found.append(Violation(ViolationKind.RESULT_OUT_OF_PLACE, result.message, _id_at(request, result)))
    for index in assistants:
        if messages[index].is_empty:
            found.append(Violation(ViolationKind.EMPTY_ASSISTANT_MESSAGE, index, ""))
    if request.protocol == "anthropic" and messages and messages[0].role != "user":
        found.append(Violation(ViolationKind.FIRST_MESSAGE_NOT_USER, 0, messages[0].role))
    return sorted(found, key=_in_order)


def _in_order(violation: Violation) -> tuple[int, ViolationKind, str]:
    return violation.message, violation.kind, violation.detail


def new_violations(rewrite: Request, kept: Sequence[int], original: Sequence[Violation]) -> list[Violation]:
    """Return the violations of a rewrite that its original did not have. `kept` maps its message indexes to the
    original's."""
    before = {_comparable(violation, violation.message) for violation in original}
    return [
        violation for violation in violations(rewrite) if _comparable(violation, kept[violation.message]) not in before
    ]


def _comparable(violation: Violation, original_index: int) -> tuple[ViolationKind, int, str]:
    """Return a violation without its index if the index is arbitrary: who speaks first concerns the whole request."""
    if violation.kind is ViolationKind.FIRST_MESSAGE_NOT_USER:
        return (violation.kind, 0, "")
    return (violation.kind, original_index, violation.detail)


def _results_in_place(request: Request) -> dict[PartRef, int]:
    """Map every result in a valid position to the index of the assistant message that it directly follows."""
    follows: dict[PartRef, int] = {}
    caller: int | None = None  # the assistant message that only results have followed so far
    for index, message in enumerate(request.messages):
        if caller is not None:
            for place, (number, _) in enumerate(message.results):
                if place == number:  # nothing but results before it
                    follows[PartRef(index, number)] = caller
        if message.role == "assistant":
            caller = index
        elif message.role != "tool":  # Anthropic's results live in the one user message behind the call
            caller = None
    return follows


def _id_at(request: Request, ref: PartRef) -> str:
    part = request.messages[ref.message].parts[ref.part]
    return part.id if isinstance(part, Call) else part.call_id if isinstance(part, Result) else ""
