"""LangChain and LangGraph: middleware for `create_agent` that shows the model a pruned view of the messages.

    agent = create_agent(model, tools, middleware=[PruneHistory(policy)])

Only the request to the model changes; the graph's state, its checkpoints and what `invoke` returns keep every message.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from drsr.adapters.chat_view import ChatView, Content, call, opaque, reasons_first, text
from drsr.adapters.forms import Gone, Removed
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, model_name
from drsr.adapters.recall_rounds import asked, asked_async
from drsr.adapters.recall_wires import ToolCall, names_key, whole_usage
from drsr.errors import MissingExtra, RequestError
from drsr.receipts.recall import RECALL, recall_tool

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingExtra("langchain", "langchain", needed_for="the middleware for LangChain") from error

_CALLS = ("tool_use", "function_call", "tool_call", "custom_tool_call")
"""Content blocks that repeat an entry of `tool_calls`."""
_SEALED = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
"""Content blocks with reasoning, mostly signed or encrypted."""


class PruneHistory(AgentMiddleware):
    """Asks the policy before each model call."""

    def __init__(self, policy: AnyPolicy, **options: Unpack[Options]) -> None:
        super().__init__()
        self.pruner = Pruner(policy, **options)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return asked(self.pruner, _WIRE, request, _RequestForm, handler, model_name(request.model))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await asked_async(self.pruner, _WIRE, request, _RequestForm, handler, model_name(request.model))


class _ModelCalls:
    """The framework's own requests and responses. A response holds one message of the model, and perhaps results that
    go with its structured output."""

    def offered(self, request: ModelRequest[Any]) -> ModelRequest[Any] | None:
        names = [tool.get("name") if isinstance(tool, dict) else tool.name for tool in request.tools]
        if not names or RECALL in names or names_key(request.model_settings.get("extra_headers")):
            return None
        return request.override(tools=[*request.tools, recall_tool("openai")])

    def calls(self, response: ModelResponse[Any]) -> list[ToolCall]:
        turn = _turn_of(response)
        invalid = [ToolCall(one["id"] or "", one["name"] or "", one["args"]) for one in turn.invalid_tool_calls]
        return [ToolCall(one["id"] or "", one["name"], one["args"]) for one in turn.tool_calls] + invalid

    def continued(
        self, request: ModelRequest[Any], response: ModelResponse[Any], results: Sequence[tuple[str, str]]
    ) -> ModelRequest[Any]:
        told = [ToolMessage(content=result, tool_call_id=call_id) for call_id, result in results]
        return request.override(messages=[*request.messages, _turn_of(response), *told])

    def reckoned(self, response: ModelResponse[Any], unseen: Sequence[ModelResponse[Any]]) -> ModelResponse[Any]:
        """Return a copy: the message may be in a cache of the program's."""
        turn, said = _turn_of(response), [_turn_of(one).usage_metadata for one in (*unseen, response)]
        if None in said:
            return response
        whole = turn.model_copy(update={"usage_metadata": whole_usage(said)})
        return replace(response, result=[whole if message is turn else message for message in response.result])


_WIRE = _ModelCalls()


def _turn_of(response: ModelResponse[Any]) -> AIMessage:
    return next(message for message in response.result if isinstance(message, AIMessage))


class MessagesForm:
    """A model request's messages: one chat message each, after the system prompt."""

    format: Literal["openai"] = "openai"

    def __init__(self, model_request: ModelRequest[Any], messages: list[AnyMessage]) -> None:
        system = model_request.system_message
        view = ChatView(_content(system.content) if system else None)
        self._messages = messages
        self._first = len(view.messages)
        for message in messages:
            _tell(view, message)
        self.pinned = frozenset(view.pinned)
        self.request = {
            "messages": view.messages,
            "tools": [convert_to_openai_tool(tool) for tool in model_request.tools],
        }

    def without(self, removed: Removed) -> list[AnyMessage]:
        return [
            _less(message, removed.of(index)) if index in removed.places and isinstance(message, AIMessage) else message
            for index, message in enumerate(self._messages, start=self._first)
            if index not in removed.messages
        ]


class _RequestForm:
    """A model request as a whole."""

    format: Literal["openai"] = "openai"

    def __init__(self, request: ModelRequest[Any]) -> None:
        self._native = request
        self._form = MessagesForm(request, request.messages)
        self.request = self._form.request
        self.pinned = self._form.pinned

    def without(self, removed: Removed) -> ModelRequest[Any]:
        return self._native.override(messages=self._form.without(removed))


def _tell(view: ChatView, message: BaseMessage) -> None:
    if isinstance(message, AIMessage):
        _tell_turn(view, message)
    elif isinstance(message, ToolMessage):
        view.result(message.tool_call_id, _content(message.content))
    elif isinstance(message, HumanMessage | SystemMessage):
        view.say("user" if isinstance(message, HumanMessage) else "system", _content(message.content))
    else:
        raise RequestError(f"a {type(message).__name__}, which cannot be represented as a chat message")


def _tell_turn(view: ChatView, message: AIMessage) -> None:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    extra = message.additional_kwargs
    said = _content([block for block in blocks if isinstance(block, str) or block.get("type") not in _CALLS + _SEALED])
    reasoning = extra.get("reasoning_content")
    invalid = message.invalid_tool_calls
    ids = [one["id"] for one in message.tool_calls]
    order = _order(message, blocks, ids)
    view.answer(
        said + ([text(extra["refusal"])] if extra.get("refusal") else []),
        [
            *(call(one["id"] or "", one["name"], json.dumps(one["args"])) for one in message.tool_calls),
            *(call(one["id"] or "", one["name"] or "", one["args"] or "") for one in invalid),
        ],
        reasoning=reasoning if isinstance(reasoning, str) else "",
        sealed=order,
        pinned=bool(invalid or extra.get("function_call") or None in ids or len(set(ids)) < len(ids))
        or not reasons_first(order),
    )


def _order(message: AIMessage, blocks: list[Any], ids: list[str | None]) -> list[int | None]:
    """Return the components of a turn in their order, None for sealed reasoning. Calls that no block repeats come
    last."""
    order: list[int | None] = [None] if message.additional_kwargs.get("reasoning") else []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _CALLS:
            order += [1 + ids.index(_call_id(block))] if _call_id(block) in ids else []
        else:
            order.append(None if kind in _SEALED else 0)
    return order + [1 + place for place in range(len(ids)) if 1 + place not in order]


def _less(message: AIMessage, gone: Gone) -> AIMessage:
    """Return a copy of the message without what is gone. Calls are repeated in other places, in the provider's own
    form."""
    ids = {message.tool_calls[place]["id"] for place in gone.calls}
    update: dict[str, Any] = {
        "tool_calls": [one for place, one in enumerate(message.tool_calls) if place not in gone.calls],
        "additional_kwargs": _less_extra(message.additional_kwargs, gone, ids),
    }
    if isinstance(message.content, list):
        stay = _CALLS + _SEALED
        kept = [block for block in message.content if isinstance(block, dict) and block.get("type") in stay]
        blocks = kept if gone.text else message.content
        update["content"] = [block for block in blocks if isinstance(block, str) or _call_id(block) not in ids]
    elif gone.text:
        update["content"] = ""
    if hasattr(message, "tool_call_chunks"):
        update["tool_call_chunks"] = [one for one in message.tool_call_chunks if one["id"] not in ids]
    return message.model_copy(update=update)


def _less_extra(extra: dict[str, Any], gone: Gone, ids: set[str | None]) -> dict[str, Any]:
    left = dict(extra)
    if isinstance(left.get("tool_calls"), list):
        left["tool_calls"] = [one for one in left["tool_calls"] if one.get("id") not in ids]
    if left.get("tool_calls") == []:
        del left["tool_calls"]
    for field, is_gone in (("reasoning_content", gone.reasoning), ("refusal", gone.text)):
        if is_gone:
            left.pop(field, None)
    return left


def _call_id(block: dict[str, Any]) -> Any:
    return block.get("call_id", block.get("id")) if block.get("type") in _CALLS else None


def _content(content: str | list[Any]) -> Content:
    blocks = [content] if isinstance(content, str) else content
    return [
        text(block)
        if isinstance(block, str)
        else text(block["text"])
        if block.get("type") == "text" and isinstance(block.get("text"), str)
        else opaque(str(block.get("type")))
        for block in blocks
    ]
