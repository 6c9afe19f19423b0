"""Recall answered on the way: a call of `recall_history` is answered here, and the program never sees it.

The model is asked again with what it recalled appended after its own answer, a few times at most; after that, and
wherever something goes wrong, the request is sent as it came, with nothing removed. So the program always gets an
answer to its own request. What it stores stays as it is: what was recalled is there for this one answer. An answer that
is not understood and does not recall is the program's, as it came.

Calls of other tools beside a recall were not carried out, and the model is told so: with its history back it may want
others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from drsr.adapters.bypass import bypassed
from drsr.adapters.forms import Form
from drsr.adapters.items_form import HOSTED
from drsr.adapters.pruner import Pruner
from drsr.adapters.wire_form import Body, as_json
from drsr.decide.decision import Outcome
from drsr.errors import RequestError
from drsr.receipts.recall import RECALL, Recalled, recall_tool, recalled

ROUNDS = 3
"""How often a model may recall before one answer."""
REFUSED = (400, 422)
"""Statuses that can be due to the tool: too many tools, or not with these settings. Such a request cost nothing."""
NOT_RUN = f"Not run: {RECALL} was answered first. Call it again if it is still needed."

IDEMPOTENCY_KEYS = ("idempotency-key", "x-idempotency-key")

_log = logging.getLogger("drsr")

B = TypeVar("B")
A = TypeVar("A")


class ToolCall(NamedTuple):
    """A call in a model's answer."""

    id: str
    name: str
    arguments: Any
    """As an object, or as its JSON."""

    @property
    def wanted(self) -> str | None:
        """The part that a recall asks for; None where it asks for the list."""
        try:
            given = json.loads(self.arguments) if isinstance(self.arguments, str) else self.arguments
        except ValueError:
            return None
        part = given.get("id") if isinstance(given, Mapping) else None
        return part if isinstance(part, str) else None


class Wire(Protocol[B, A]):
    """Requests and answers of one kind."""

    def offered(self, body: B) -> B | None:
        """The request with the tool; None where it has none of its own, or where a call could not be answered."""

    def calls(self, answer: A) -> Sequence[ToolCall]:
        """All calls of an answer. May raise whatever it likes where it does not understand it."""

    def continued(self, body: B, answer: A, results: Sequence[tuple[str, str]]) -> B:
        """The request with the answer and the results of its calls, by their ids."""

    def reckoned(self, answer: A, unseen: Sequence[A]) -> A:
        """The answer with the usage of those that the program does not see added to its own."""


class Rounds(Generic[B, A]):
    """The requests sent instead of one request of the program's: `body` first, then what `following` says."""

    def __init__(self, wire: Wire[B, A], original: B, body: B, outcome: Outcome | None) -> None:
        """`original` is the request as it came, `body` what the policy left of it, with the tool."""
        self.wire = wire
        self.original = original
        self.body = body
        self.unseen: list[A] = []
        self.given_up = False
        """Whether the last request is the program's own: its answer is handed on, whatever it is."""
        self._outcome = outcome
        self._names = frozenset(block.name for block in outcome.removed) if outcome else frozenset()
        self._recalled: list[str] = []

    @property
    def recalled(self) -> Recalled | None:
        """What was recalled so far; None where nothing was, and nothing else made us send the request as it came."""
        if not self.unseen and not self.given_up:
            return None
        return Recalled(len(self.unseen), tuple(dict.fromkeys(self._recalled)))

    def following(self, answer: A) -> B | None:
        """Return the request to send next; None where this answer is the program's."""
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
        """The same for an answer that cannot be read. The program's own, unless it seems to recall, or answers an
        exchange of ours: then it is paid for and not shown."""
        if self.given_up or not (recalls or self.unseen):
            return None
        self.unseen.append(answer)
        return self.give_up()

    def after_error(self, status: int | None) -> B | None:
        """The same where there was no answer. None where the error is the program's own."""
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
    """Ask the model with what the policy leaves of a request, and with what it then recalls. `wire` is None where it
    can recall nothing."""
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
    """The same for an event loop."""
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


def names_key(headers: Any) -> bool:
    """Return whether headers hold an idempotency key: a provider that honours it answers every round alike."""
    return any(str(name).lower() in IDEMPOTENCY_KEYS for name in headers) if isinstance(headers, Mapping) else False


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


class JsonWire:
    """Bodies and answers as JSON, or as the SDKs' own models."""

    def __init__(
        self,
        history: str,
        tool: dict[str, Any],
        calls: Callable[[Any], Sequence[ToolCall]],
        exchange: Callable[[Any, Sequence[tuple[str, str]]], list[Any]],
    ) -> None:
        self._history = history
        self._tool = tool
        self._calls = calls
        self._exchange = exchange

    def offered(self, body: Body) -> Body | None:
        """None without tools, where a model may take none; of a stream, which the program reads as it comes; of
        several answers; of work in the background; of a history that the provider keeps, our exchanges included; and
        beside a tool of that name."""
        elsewhere = ("stream", "background", "previous_response_id", "conversation", "functions")
        tools, history = as_json(body.get("tools") or []), body.get(self._history)
        if any(body.get(name) for name in elsewhere) or (body.get("n") or 1) != 1 or not isinstance(history, list):
            return None
        if not tools or not isinstance(tools, list) or any(_name(tool) == RECALL for tool in tools):
            return None
        return {**body, "tools": [*body["tools"], self._tool]}

    def calls(self, answer: Any) -> Sequence[ToolCall]:
        return self._calls(as_json(answer))

    def continued(self, body: Body, answer: Any, results: Sequence[tuple[str, str]]) -> Body:
        return {**body, self._history: [*body[self._history], *self._exchange(as_json(answer), results)]}

    def reckoned(self, answer: Any, unseen: Sequence[Any]) -> Any:
        """As it is where one of them does not say: a part is not the whole."""
        if isinstance(answer, dict):
            said = [one.get("usage") for one in (*unseen, answer)]
            return answer if None in said else {**answer, "usage": whole_usage(said)}
        if any(getattr(one, "usage", None) is None for one in (*unseen, answer)):
            return answer
        for one in reversed(unseen):
            _add_to(answer.usage, one.usage)
        return answer


def whole_usage(each: Sequence[Any]) -> Any:
    """Add reports of usage up, field by field. What is no number is that of the last."""
    return reduce(_sum, each)


def _add_to(usage: Any, earlier: Any) -> None:
    """The same in a model of an SDK, in place: a new one would have to hold fields that the provider left out."""
    for name, value in () if usage is None or earlier is None else earlier:
        mine = getattr(usage, name, None)
        if hasattr(mine, "model_fields_set") and hasattr(value, "model_fields_set"):
            _add_to(mine, value)
        else:
            setattr(usage, name, _sum(value, mine))


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **{name: _sum(one.get(name), value) for name, value in other.items()}}
    if _is_number(one) and _is_number(other):
        return one + other
    return one if other is None else other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return None
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else tool.get("name")


_TURN = ("role", "content", "tool_calls", "refusal", "reasoning_content")
_ANSWER_ONLY = ("annotations", "audio", "executed_tools", "function_call", "reasoning")
"""Fields of a message that no request repeats. All others are: reasoning has many names, and may have to be there."""


def chat_turn(answer: dict[str, Any]) -> dict[str, Any]:
    """The assistant's message of a chat completion, as a later request can repeat it."""
    message = answer["choices"][0]["message"]
    return {name: value for name, value in message.items() if name in _TURN and value is not None}


def _chat_calls(answer: dict[str, Any]) -> list[ToolCall]:
    calls = chat_turn(answer).get("tool_calls", [])
    said = [(call["id"], call.get("function") or call.get("custom")) for call in calls]
    return [ToolCall(call_id, about["name"], about.get("arguments")) for call_id, about in said]


def _chat_exchange(answer: dict[str, Any], results: Sequence[tuple[str, str]]) -> list[Any]:
    message = answer["choices"][0]["message"]
    return [
        {name: value for name, value in message.items() if name not in _ANSWER_ONLY and value is not None},
        *({"role": "tool", "tool_call_id": call_id, "content": result} for call_id, result in results),
    ]


def _message_calls(answer: dict[str, Any]) -> list[ToolCall]:
    blocks = answer["content"]
    return [ToolCall(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]


def _message_exchange(answer: dict[str, Any], results: Sequence[tuple[str, str]]) -> list[Any]:
    told = [{"type": "tool_result", "tool_use_id": call_id, "content": result} for call_id, result in results]
    return [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": told}]


def _response_calls(answer: dict[str, Any]) -> list[ToolCall]:
    found = []
    for item in answer["output"]:
        kind = item["type"]
        if kind == "function_call":
            found.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
        elif kind.endswith("_call") and kind not in HOSTED and item.get("call_id"):
            found.append(ToolCall(item["call_id"], kind, None))
    return found


def _response_exchange(answer: dict[str, Any], results: Sequence[tuple[str, str]]) -> list[Any]:
    """RequestError beside a call of another kind than a function, whose output has a form of its own."""
    kinds = {item.get("call_id"): item["type"] for item in answer["output"]}
    if any(kinds[call_id] != "function_call" for call_id, _ in results):
        raise RequestError("a call that is not a function's", where="a response that recalls")
    told = [{"type": "function_call_output", "call_id": call_id, "output": result} for call_id, result in results]
    return [*answer["output"], *told]


_TOOL = recall_tool("openai")
CHAT = JsonWire("messages", _TOOL, _chat_calls, _chat_exchange)
MESSAGES = JsonWire("messages", recall_tool("anthropic"), _message_calls, _message_exchange)
RESPONSES = JsonWire("input", {"type": "function", **_TOOL["function"]}, _response_calls, _response_exchange)
