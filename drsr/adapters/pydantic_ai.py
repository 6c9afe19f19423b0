"""Pydantic AI: a capability that shows the model a pruned view of the message history.

    agent = Agent(model, capabilities=[PruneHistory(policy)])

Only the request to the model changes: `result.all_messages()` keeps every message. (The framework's own
`ProcessHistory` writes what its function returns into the stored history too, which is why this is a capability.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Unpack

from drsr.adapters.chat_view import ChatView, Content, call, opaque, reasons_first, text
from drsr.adapters.forms import Removed
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, model_name, refuse_recall
from drsr.errors import MissingExtra

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
except ImportError as error:
    raise MissingExtra("pydantic-ai-slim", "pydantic-ai", needed_for="the capability for Pydantic AI") from error


class PruneHistory(AbstractCapability[Any]):
    """Asks the policy before each model request."""

    def __init__(self, policy: AnyPolicy, **options: Unpack[Options]) -> None:
        self.pruner = Pruner(policy, **refuse_recall(options, "Pydantic AI allows one request to the model per step"))

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        read = partial(HistoryForm, request_context.model_request_parameters)
        messages = await self.pruner.view_in_thread(request_context.messages, read, model_name(ctx.model))
        return request_context if messages is request_context.messages else replace(request_context, messages=messages)


class _PartAt(NamedTuple):
    message: int
    part: int


@dataclass(frozen=True, slots=True)
class _Told:
    """The parts of the history that one chat message represents."""

    text: list[_PartAt] = field(default_factory=list)
    reasoning: list[_PartAt] = field(default_factory=list)
    calls: list[_PartAt] = field(default_factory=list)
    whole: list[_PartAt] = field(default_factory=list)
    """All parts, including those that the chat message leaves out."""


class HistoryForm:
    """A message history: a chat message for each response, and for each part of a request."""

    format: Literal["openai"] = "openai"

    def __init__(self, parameters: ModelRequestParameters, history: list[ModelMessage]) -> None:
        instructions = [text(part.content) for part in parameters.instruction_parts or [] if part.content]
        self._history = history
        self._view = ChatView(instructions)
        self._told: dict[int, _Told] = {}
        for index, message in enumerate(history):
            if isinstance(message, ModelResponse):
                self._tell_response(message, index)
            else:
                self._tell_request(message, index)
        self.pinned = frozenset(self._view.pinned)
        self.request = {
            "messages": self._view.messages,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description or "",
                        "parameters": tool.parameters_json_schema,
                    },
                }
                for tool in (*parameters.function_tools, *parameters.output_tools)
            ],
        }

    def without(self, removed: Removed) -> list[ModelMessage]:
        gone: set[_PartAt] = set()
        for index in removed.messages:
            gone.update(self._told[index].whole)
        for index in removed.places:
            told, less = self._told[index], removed.of(index)
            gone.update(told.text if less.text else [])
            gone.update(told.reasoning if less.reasoning else [])
            gone.update(told.calls[place] for place in less.calls)
        left: list[ModelMessage] = []
        message: Any
        for index, message in enumerate(self._history):
            parts = [part for n, part in enumerate(message.parts) if _PartAt(index, n) not in gone]
            if len(parts) == len(message.parts):
                left.append(message)
            elif parts:
                left.append(replace(message, parts=parts))
        return left

    def _tell_request(self, request: ModelRequest, index: int) -> None:
        results = [n for n, part in enumerate(request.parts) if _is_result(part)]
        others = [n for n in range(len(request.parts)) if n not in results]
        for n in (*results, *others):  # behind the calls come their results, whatever else was said meanwhile
            part: Any = request.parts[n]
            if n in results:
                told = self._view.result(part.tool_call_id, _answered(part))
            elif isinstance(part, SystemPromptPart):
                told = self._view.say("system", [text(part.content)])
            elif isinstance(part, UserPromptPart):
                told = self._view.say("user", _content(part.content))
            else:  # what else the framework puts into a request is never deleted, so it is enough that it is there
                told = self._view.say("user", [opaque(part.part_kind)])
            self._told[told] = _Told(whole=[_PartAt(index, n)])

    def _tell_response(self, response: ModelResponse, index: int) -> None:
        told, said, calls, thoughts = _Told(), list[dict[str, Any]](), list[dict[str, Any]](), list[str]()
        order: list[int | None] = []
        pinned = False
        for n, part in enumerate(response.parts):
            at = _PartAt(index, n)
            told.whole.append(at)
            if isinstance(part, TextPart):
                said.append(text(part.content))
                told.text.append(at)
                order.append(0)
            elif isinstance(part, ToolCallPart):
                calls.append(call(part.tool_call_id, part.tool_name, part.args_as_json_str()))
                told.calls.append(at)
                order.append(len(calls))
                pinned |= part.tool_kind is not None  # the framework learns from these which tools there are
            elif isinstance(part, ThinkingPart) and not (part.id or part.signature or part.provider_details):
                thoughts.append(part.content)
                told.reasoning.append(at)
            elif isinstance(part, ThinkingPart):
                order.append(None)
            else:
                said.append(opaque(part.part_kind))
                order.append(0)
        pinned |= not reasons_first(order)
        self._told[self._view.answer(said, calls, reasoning="\n\n".join(thoughts), sealed=order, pinned=pinned)] = told


def _is_result(part: Any) -> bool:
    """Return whether it is a result, also of the deprecated kind that old histories may hold."""
    return isinstance(part, ToolReturnPart) or (part.part_kind == "retry-prompt" and part.tool_name is not None)


def _answered(part: Any) -> Content:
    if not isinstance(part, ToolReturnPart):
        return [text(part.model_response())]
    return [text(part.model_response_str()), *(opaque(file.kind) for file in part.files)]


def _content(content: str | Sequence[Any]) -> Content:
    return [text(content)] if isinstance(content, str) else [_content_part(item) for item in content]


def _content_part(item: Any) -> dict[str, Any]:
    if isinstance(item, str | TextContent):
        return text(item if isinstance(item, str) else item.content)
    return opaque(item.kind)
