"""A double of OpenHands' SDK, which needs Python 3.12: the modules, names and behaviour that our comparator rests on.

Looked up in openhands-sdk 1.58.0, where the same tests pass; written anew. Tokens are counted as words.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

NAME = "openhands.sdk"


@dataclass
class TextContent:
    text: str


@dataclass
class Message:
    role: str
    content: list[TextContent]


@dataclass
class MessageToolCall:
    id: str
    name: str
    arguments: str
    origin: str


@dataclass
class MetricsSnapshot:
    accumulated_cost: float = 0.0


@dataclass
class LLMResponse:
    message: Message
    metrics: MetricsSnapshot
    raw_response: Any

    @classmethod
    def model_construct(cls, **fields: Any) -> LLMResponse:
        """What Pydantic has for making one without checking."""
        return cls(**fields)

    @property
    def id(self) -> str:
        return str(self.raw_response.id)


class LLM:
    def __init__(self, *, model: str) -> None:
        self.model = model

    def generate(self, messages: list[Message], store: bool | None = None, **options: Any) -> LLMResponse:
        raise AssertionError("the real one would ask the network")

    def get_token_count(self, messages: list[Message]) -> int:
        return sum(len(part.text.split()) for message in messages for part in message.content)


@dataclass
class MCPToolAction:
    data: dict[str, Any]


@dataclass
class MCPToolObservation:
    content: list[TextContent]
    tool_name: str


@dataclass
class _Event:
    id: str

    def to_llm_message(self) -> Message:
        raise NotImplementedError

    def _preview(self) -> str:
        return " ".join(part.text for part in self.to_llm_message().content)[:500]

    def __str__(self) -> str:
        source = getattr(self, "source", "environment")
        return f"{type(self).__name__} ({source})\n  {self.to_llm_message().role}: {self._preview()}"


@dataclass
class SystemPromptEvent(_Event):
    system_prompt: TextContent
    tools: list[Any]

    def to_llm_message(self) -> Message:
        return Message("system", [self.system_prompt])


@dataclass
class MessageEvent(_Event):
    source: str
    llm_message: Message

    def to_llm_message(self) -> Message:
        return self.llm_message


@dataclass
class ActionEvent(_Event):
    thought: list[TextContent]
    action: MCPToolAction
    tool_name: str
    tool_call_id: str
    tool_call: MessageToolCall
    llm_response_id: str

    def to_llm_message(self) -> Message:
        return Message("assistant", self.thought)

    def __str__(self) -> str:
        return f"ActionEvent (agent)\n  Thought: {self._preview()}\n  Action: {type(self.action).__name__}"


@dataclass
class ObservationEvent(_Event):
    tool_name: str
    tool_call_id: str
    observation: MCPToolObservation
    action_id: str

    def to_llm_message(self) -> Message:
        return Message("tool", self.observation.content)

    def __str__(self) -> str:
        return f"ObservationEvent (environment)\n  Tool: {self.tool_name}\n  Result: {self._preview()}"


@dataclass
class CondensationSummaryEvent(_Event):
    summary: str

    def to_llm_message(self) -> Message:
        return Message("user", [TextContent(self.summary)])


@dataclass
class Condensation:
    forgotten_event_ids: set[str]
    summary: str
    summary_offset: int
    llm_response_id: str


@dataclass
class View:
    events: list[Any] = field(default_factory=list)

    @staticmethod
    def from_events(log: list[Any]) -> View:
        """Condensations are applied where they stand; calls without a result go with their batch, and the reverse."""
        events: list[Any] = []
        for one in log:
            if isinstance(one, Condensation):
                events = [event for event in events if event.id not in one.forgotten_event_ids]
                events.insert(one.summary_offset, CondensationSummaryEvent("made up", one.summary))
            else:
                events.append(one)
        while True:
            answered = {event.tool_call_id for event in events if isinstance(event, ObservationEvent)}
            actions = [event for event in events if isinstance(event, ActionEvent)]
            broken = {event.llm_response_id for event in actions if event.tool_call_id not in answered}
            kept = {event.tool_call_id for event in actions if event.llm_response_id not in broken}
            left = [event for event in events if getattr(event, "tool_call_id", None) in {None, *kept}]
            if len(left) == len(events):
                return View(events)
            events = left

    def cuts(self) -> list[int]:
        """Where no call waits for its result."""
        waiting: set[str] = set()
        found = [0]
        for index, event in enumerate(self.events):
            if isinstance(event, ActionEvent):
                waiting.add(event.tool_call_id)
            elif isinstance(event, ObservationEvent):
                waiting.discard(event.tool_call_id)
            if not waiting:
                found.append(index + 1)
        return found


class _NothingToCondense(Exception):
    pass


@dataclass
class LLMSummarizingCondenser:
    llm: LLM
    max_size: int
    keep_first: int
    max_tokens: int

    def condense(self, view: View, agent_llm: LLM) -> View | Condensation:
        tails: list[int] = []
        if len(view.events) > self.max_size:
            tails.append(self.max_size // 2 - self.keep_first - 1)
        crowded = _tokens(view.events, agent_llm) > self.max_tokens
        if crowded:
            first = view.events[: self.keep_first]
            rest = range(len(view.events), self.keep_first - 1, -1)
            fits = [n for n in rest if _tokens(first + view.events[n:], agent_llm) < self.max_tokens // 2]
            tails.append(len(view.events) - min(fits, default=len(view.events)))
        if not tails:
            return view
        try:
            cuts = view.cuts()
            start = next((cut for cut in cuts if cut >= self.keep_first), 0)
            stop = next((cut for cut in cuts if cut >= len(view.events) - min(tails)), 0)
            if not start or stop - start < max(1, len(view.events) * 0.1):
                raise _NothingToCondense
            return self._forget(view.events[start:stop], start)
        except _NothingToCondense:
            if not crowded:
                return view
        start = int(isinstance(view.events[0], SystemPromptEvent))
        for _ in range(5):
            try:
                return self._forget(view.events[start:], start)
            except _NothingToCondense:
                continue
        raise _NothingToCondense

    def _forget(self, events: list[Any], offset: int) -> Condensation:
        told = "\n\n".join(f"<EVENT>\n{event}\n</EVENT>" for event in events)
        asked = [
            Message("system", [TextContent("You are maintaining a context-aware state summary.")]),
            Message("user", [TextContent(told)]),
        ]
        try:
            response = self.llm.generate(messages=asked, store=False)
        except Exception as error:
            raise _NothingToCondense from error
        return Condensation({event.id for event in events}, response.message.content[0].text, offset, response.id)


def _tokens(events: list[Any], llm: LLM) -> int:
    return llm.get_token_count([event.to_llm_message() for event in events])


MODULES = {
    "context.condenser": (LLMSummarizingCondenser,),
    "context.view": (View,),
    "event": (ActionEvent, CondensationSummaryEvent, MessageEvent, ObservationEvent, SystemPromptEvent),
    "llm": (LLM, LLMResponse, Message, MessageToolCall, MetricsSnapshot, TextContent),
    "mcp.definition": (MCPToolAction, MCPToolObservation),
}


def install_openhands_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the names of the real package's modules, as long as the test runs."""
    for name, classes in MODULES.items():
        module = ModuleType(f"{NAME}.{name}", "A double.")
        for one in classes:
            setattr(module, one.__name__, one)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("openhands", NAME, f"{NAME}.context", f"{NAME}.mcp"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name, "A double."))
