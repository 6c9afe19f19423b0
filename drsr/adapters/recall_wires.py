"""Recalls in the three protocols: how the tool is offered, how its calls are found and answered, usage added up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from drsr.adapters.forms import Body, as_json
from drsr.adapters.items_form import HOSTED
from drsr.errors import RequestError
from drsr.receipts.recall import RECALL, recall_tool

IDEMPOTENCY_KEYS = ("idempotency-key", "x-idempotency-key")


class ToolCall(NamedTuple):
    """A call in a model's answer."""

    id: str
    name: str
    arguments: Any
    """Arguments as an object, or as its JSON."""

    @property
    def wanted(self) -> str | None:
        """Return the part that a recall asks for; None if it asks for the list."""
        try:
            given = json.loads(self.arguments) if isinstance(self.arguments, str) else self.arguments
        except ValueError:
            return None
        part = given.get("id") if isinstance(given, Mapping) else None
        return part if isinstance(part, str) else None


def names_key(headers: Any) -> bool:
    """Return whether headers hold an idempotency key: a provider that honours it gives every round the same answer."""
    return any(str(name).lower() in IDEMPOTENCY_KEYS for name in headers) if isinstance(headers, Mapping) else False


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
        """Return the request with the tool. None if it has no tools, because its model may not accept any; for a
        stream, which the program reads as it comes; for several answers; for work in the background; for a history that
        the provider keeps, our exchanges included; and if it already has a tool of that name."""
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
        """Return the answer with the usage of all rounds; unchanged if one of them reports none, because a part is not
        the whole."""
        if isinstance(answer, dict):
            said = [one.get("usage") for one in (*unseen, answer)]
            return answer if None in said else {**answer, "usage": whole_usage(said)}
        if any(getattr(one, "usage", None) is None for one in (*unseen, answer)):
            return answer
        for one in reversed(unseen):
            _add_to(answer.usage, one.usage)
        return answer


def whole_usage(each: Sequence[Any]) -> Any:
    """Add up reports of usage, field by field. A field that is not a number keeps its last value."""
    return reduce(_sum, each)


def _add_to(usage: Any, earlier: Any) -> None:
    """Add in place to a model of an SDK: a new one would have to hold fields that the provider left out."""
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
    """Return the assistant's message of a chat completion, as a later request can repeat it."""
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
    """Raise RequestError if there is also a call that is not a function, because its output has another form."""
    kinds = {item.get("call_id"): item["type"] for item in answer["output"]}
    if any(kinds[call_id] != "function_call" for call_id, _ in results):
        raise RequestError("a call that is not a function's", where="a response that recalls")
    told = [{"type": "function_call_output", "call_id": call_id, "output": result} for call_id, result in results]
    return [*answer["output"], *told]


_TOOL = recall_tool("openai")
CHAT = JsonWire("messages", _TOOL, _chat_calls, _chat_exchange)
MESSAGES = JsonWire("messages", recall_tool("anthropic"), _message_calls, _message_exchange)
RESPONSES = JsonWire("input", {"type": "function", **_TOOL["function"]}, _response_calls, _response_exchange)
