"""A request as LangChain's messages, each with its place as id, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drsr.offline.bench.comparators.peer_messages import Left, Told, carry_back
from drsr.request.request import Request

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage, BaseMessage


def langchain_messages(told: Sequence[Told]) -> list[AnyMessage]:
    """Return the messages in LangChain's classes."""
    return [_message(one, str(place)) for place, one in enumerate(told)]


def from_langchain(request: Request, told: Sequence[Told], messages: Sequence[BaseMessage]) -> Request:
    """Return the messages that LangChain kept."""
    left = []
    for message in messages:
        one = told[int(str(message.id))]
        said = str(message.content)
        left.append(Left(one, one.text if said == (one.text or "") else said))
    return carry_back(request, left)


def _message(told: Told, place: str) -> AnyMessage:
    from langchain_core.messages import AIMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

    text = told.text or ""
    match told.role:
        case "assistant":
            calls: list[Any] = [
                {"name": call.name, "args": call.arguments if isinstance(call.arguments, dict) else {}, "id": call.id}
                for call in told.calls
            ]
            return AIMessage(content=text, tool_calls=calls, id=place)
        case "tool":
            return ToolMessage(content=text, tool_call_id=told.call_id, id=place)
        case "function":
            return FunctionMessage(content=text, name=told.call_id, id=place)
        case "user":
            return HumanMessage(content=text, id=place)
        case _:
            return SystemMessage(content=text, id=place)
