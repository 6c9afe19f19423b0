"""Inspect: a model that is shown a pruned view of the messages.

    eval(task, model=prune_with(policy, get_model("openai/gpt-5")))

It is a copy of the model, on the same connections; the original model prunes nothing. A sample's messages stay whole,
and its model events hold what the model was shown. A hook would not work: `on_before_model_generate` gets the agent's
own list with many providers. Nor would a compaction strategy: see decision 0028.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, Literal, Unpack

from drsr.adapters.chat_view import ChatView, Content, call, opaque, reasons_first, text
from drsr.adapters.forms import Gone, Removed
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, refuse_recall
from drsr.errors import MissingExtra, RequestError

try:
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageTool,
        ContentReasoning,
        ContentText,
        Model,
    )
    from inspect_ai.tool import ToolDef, ToolInfo, ToolSource
except ImportError as error:
    raise MissingExtra("inspect-ai", "inspect", needed_for="pruning the messages of Inspect's models") from error


def prune_with(policy: AnyPolicy, model: Model, **options: Unpack[Options]) -> Model:
    """Return the model, asking the policy first."""
    pruner = Pruner(policy, **refuse_recall(options, "the sample would show calls that its agent never made"))
    if not isinstance(model, Model):
        raise TypeError(f"a model of Inspect's, not a {type(model).__name__}: see inspect_ai.model.get_model")
    fresh = copy(model)
    ask = fresh.generate

    async def generate(input: str | list[ChatMessage], tools: Any = (), *rest: Any, **named: Any) -> Any:
        if not isinstance(input, str):
            input = await pruner.view_in_thread(input, partial(MessagesForm, tools), str(fresh))
        return await ask(input, tools, *rest, **named)

    fresh.generate = generate  # on the instance: agents and the framework ask for the very class
    return fresh


class MessagesForm:
    """A model's input: one chat message each."""

    format: Literal["openai"] = "openai"

    def __init__(self, tools: Any, messages: list[ChatMessage]) -> None:
        view = ChatView()
        self._messages = messages
        for message in messages:
            _tell(view, message)
        self.pinned = frozenset(view.pinned)
        given = () if isinstance(tools, ToolSource) else tools
        told = [_told(tool) for tool in given if not isinstance(tool, ToolSource)]
        self.request = {"messages": view.messages, "tools": told}

    def without(self, removed: Removed) -> list[ChatMessage]:
        return [
            _less(message, removed.of(index)) if index in removed.places else message
            for index, message in enumerate(self._messages)
            if index not in removed.messages
        ]


def _told(tool: Any) -> dict[str, Any]:
    """Return the description of a tool. Tools from a tool source are left out: asking the source may start a server."""
    about = tool if isinstance(tool, ToolInfo | ToolDef) else ToolDef(tool)
    parameters = about.parameters.model_dump(exclude_none=True)
    function = {"name": about.name, "description": about.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _tell(view: ChatView, message: ChatMessage) -> None:
    if isinstance(message, ChatMessageAssistant):
        _tell_turn(view, message)
    elif isinstance(message, ChatMessageTool):
        said = [text(message.error.message)] if message.error else _content(message.content)
        view.result(message.tool_call_id or "", said)
    elif message.role in ("user", "system"):
        view.say(message.role, _content(message.content))
    else:
        raise RequestError(f"a {type(message).__name__}, which cannot be represented as a chat message")


def _tell_turn(view: ChatView, message: ChatMessageAssistant) -> None:
    calls = message.tool_calls or []
    parts, thoughts, order = list[Any](), list[str](), list[int | None]()
    for part in message.content_list:
        if _is_sealed(part):
            order.append(None)
        elif isinstance(part, ContentReasoning):
            thoughts.append(part.reasoning)
        elif not isinstance(part, ContentText) or part.text:
            parts.append(part)
            order.append(0)
    order += range(1, len(calls) + 1)
    view.answer(
        _content(parts),
        [call(one.id, one.function, json.dumps(one.arguments)) for one in calls],
        reasoning="\n\n".join(thoughts),
        sealed=order,
        pinned=len({one.id for one in calls}) < len(calls) or not reasons_first(order),
    )


def _less(message: ChatMessageAssistant, gone: Gone) -> ChatMessageAssistant:
    """Return a copy of the message without what is gone."""
    stays = [
        part
        for part in message.content_list
        if not (gone.text and isinstance(part, ContentText))
        and not (gone.reasoning and isinstance(part, ContentReasoning) and not _is_sealed(part))
    ]
    content = stays if isinstance(message.content, list) else "" if gone.text else message.content
    calls = [one for place, one in enumerate(message.tool_calls or []) if place not in gone.calls]
    return message.model_copy(update={"content": content, "tool_calls": calls or None})


def _is_sealed(part: Any) -> bool:
    """Reasoning that its provider wants back as it was."""
    return isinstance(part, ContentReasoning) and bool(part.signature or part.redacted or part.internal is not None)


def _content(content: str | Sequence[Any]) -> Content:
    parts: Sequence[Any] = [ContentText(text=content)] if isinstance(content, str) else content
    return [text(part.text) if isinstance(part, ContentText) else opaque(part.type) for part in parts]
