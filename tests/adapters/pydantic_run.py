"""The sample run as Pydantic AI's message history, and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.adapters.long_run import RUN
from tests.conversations import Conversation


def pydantic_history(run: Conversation) -> list[ModelMessage]:
    """The run as `result.all_messages()` gives it."""
    history: list[ModelMessage] = [ModelRequest([UserPromptPart(run.task)])]
    for turn in run.turns:
        parts: list[Any] = [ThinkingPart(turn.reasoning)] if turn.reasoning else []
        parts += [TextPart(turn.text)] if turn.text else []
        parts += [ToolCallPart(name, arguments, call_id) for call_id, name, arguments, _ in turn.exchanges]
        history.append(ModelResponse(parts))
        replies: list[Any] = [ToolReturnPart(e.name, e.answer, e.call_id) for e in turn.exchanges]
        replies += [UserPromptPart(turn.user)] if turn.user else []
        history += [ModelRequest(replies)] if replies else []
    return history


HISTORY = pydantic_history(RUN)


class Shown:
    """A model that says what it is told to, and keeps what it is shown."""

    def __init__(self, *answers: ModelResponse) -> None:
        self.histories: list[list[ModelMessage]] = []
        self.answers = list(answers)
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.histories.append(messages)
        return self.answers.pop(0) if self.answers else ModelResponse([TextPart("done")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.histories.append(messages)
        yield "do"
        yield "ne"
