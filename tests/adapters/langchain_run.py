"""The sample run as LangChain's messages, and a scripted chat model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool

from tests.adapters.long_run import RUN
from tests.conversations import Conversation


class ScriptedChatModel(GenericFakeChatModel):
    """A double that says what it is told to, and keeps what it is shown."""

    shown: list[list[BaseMessage]] = []

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedChatModel:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **more: Any) -> ChatResult:
        self.shown.append(messages)
        return super()._generate(messages, *rest, **more)


def says(*answers: AIMessage | str) -> ScriptedChatModel:
    return ScriptedChatModel(messages=iter(answers), shown=[])


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"contents of {path}"


def langchain_messages(run: Conversation, *, blocks: bool = False) -> list[AnyMessage]:
    """The run as a graph's state holds it; with `blocks` in the form of Anthropic's models."""
    messages: list[AnyMessage] = [HumanMessage(run.task)]
    for turn in run.turns:
        content: Any = turn.text
        if blocks:
            content = [{"type": "text", "text": turn.text}] if turn.text else []
            content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a, _ in turn.exchanges]
        extra = {"reasoning_content": turn.reasoning} if turn.reasoning else {}
        calls: Any = [{"type": "tool_call", "id": i, "name": n, "args": a} for i, n, a, _ in turn.exchanges]
        messages.append(AIMessage(content, tool_calls=calls, additional_kwargs=extra))
        messages += [ToolMessage(e.answer, tool_call_id=e.call_id) for e in turn.exchanges]
        messages += [HumanMessage(turn.user)] if turn.user else []
    return messages


HISTORY = langchain_messages(RUN)
