"""OpenHands: a condenser that shows the model a pruned view of the conversation's events.

    agent = Agent(llm=llm, tools=tools, condenser=PruneHistory(policy))

It returns a view and never a `Condensation`, so only the request to the model changes: the conversation and its files
keep every event. Tool definitions are not counted, because a condenser does not see them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, Unpack
from uuid import uuid4
from weakref import WeakValueDictionary

from drsr.adapters.chat_view import ChatView, Content, call, opaque, text
from drsr.adapters.forms import Gone, Removed
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, model_name, refuse_recall
from drsr.errors import MissingExtra, RequestError

try:
    from openhands.sdk.context.condenser.base import CondenserBase
    from openhands.sdk.context.view import View
    from openhands.sdk.event import ActionEvent, LLMConvertibleEvent, MessageEvent, ObservationBaseEvent
    from openhands.sdk.llm import LLM, Message, TextContent
    from pydantic import Field, PrivateAttr
except ImportError as error:
    raise MissingExtra("openhands-sdk", "openhands", needed_for="the condenser for OpenHands") from error

_log = logging.getLogger("drsr")
_PRUNERS: WeakValueDictionary[str, Pruner] = WeakValueDictionary()
"""Pruners of the condensers in this process, by their names."""


class PruneHistory(CondenserBase):  # type: ignore[misc]
    """Ask the policy before each model call.

    An agent is saved with its conversation; a policy is not. An agent loaded back in the same process, such as a fork
    of a conversation, prunes as before; elsewhere it prunes nothing, and says so in the log.
    """

    name: str = Field(default="", description="Names the policy's use in the process that made it.")
    _pruner: Pruner | None = PrivateAttr(None)

    def __init__(self, policy: AnyPolicy | None = None, *, name: str = "", **options: Unpack[Options]) -> None:
        """Only the framework leaves the policy out."""
        super().__init__(name=name or uuid4().hex)
        self._pruner = _PRUNERS.get(self.name)
        if policy is not None or not name:
            why = "a condenser sees the request, not the answer"
            self._pruner = _PRUNERS[self.name] = Pruner(policy, **refuse_recall(options, why))  # type: ignore[arg-type]

    def condense(self, view: View, agent_llm: LLM | None = None) -> View:
        pruner = self._known()
        return view if pruner is None else pruner.view(view, HistoryForm, model_name(agent_llm))

    async def acondense(self, view: View, agent_llm: LLM | None = None) -> View:
        pruner = self._known()
        return view if pruner is None else await pruner.view_in_thread(view, HistoryForm, model_name(agent_llm))

    def _known(self) -> Pruner | None:
        if self._pruner is None:
            _log.warning("nothing is pruned: the condenser was read from a file; give the agent PruneHistory(policy)")
        return self._pruner


class HistoryForm:
    """A view's events: one chat message for each, and one for all actions of one answer."""

    format: Literal["openai"] = "openai"

    def __init__(self, view: View) -> None:
        self._view = view
        self._told: dict[int, list[LLMConvertibleEvent]] = {}
        told = ChatView()
        loops = _loop_starts(view.events)
        for _, grouped in groupby(enumerate(view.events), lambda at: _answer_of(*at)):
            events = [event for _, event in grouped]
            first = events[0]
            if isinstance(first, ActionEvent):
                index = _tell_turn(told, events, pinned=first.id in loops)
            else:
                index = _tell(told, first.to_llm_message())
            self._told[index] = events
        self.pinned = frozenset(told.pinned)
        self.request = {"messages": told.messages}

    def without(self, removed: Removed) -> View:
        left: list[LLMConvertibleEvent] = []
        for index, events in self._told.items():
            if index in removed.messages:
                continue
            left += _less(events, removed.of(index)) if index in removed.places else events
        return View(events=left, unhandled_condensation_request=self._view.unhandled_condensation_request)


def _less(events: Sequence[Any], gone: Gone) -> list[LLMConvertibleEvent]:
    """Return the remaining actions of an answer. The first carries what was said and thought before all of them."""
    first = events[0]
    kept = [event for place, event in enumerate(events) if place not in gone.calls]
    carried = {
        "reasoning_content": None if gone.reasoning else first.reasoning_content,
        "thinking_blocks": first.thinking_blocks,
        "responses_reasoning_item": first.responses_reasoning_item,
    }
    said = [] if gone.text else list(first.thought)
    if not kept:
        message = Message(role="assistant", content=said, **carried)
        return [MessageEvent(id=first.id, source="agent", llm_message=message)]
    return [kept[0].model_copy(update={"thought": said, **carried}), *kept[1:]]


def _answer_of(place: int, event: LLMConvertibleEvent) -> tuple[str, Any]:
    """Return the answer that an action belongs to: the framework sends adjacent actions of one answer as one
    message."""
    return ("answer", event.llm_response_id) if isinstance(event, ActionEvent) else ("event", place)


def _loop_starts(events: Sequence[LLMConvertibleEvent]) -> set[str]:
    """Actions with signed thinking that later actions of the same turn need: Anthropic refuses a turn that begins
    without thinking, and only a message of another speaker ends it."""
    found: set[str] = set()
    start: ActionEvent | None = None
    for event in events:
        if isinstance(event, ActionEvent) and event.thinking_blocks:
            start = event
        elif isinstance(event, ActionEvent) and start is not None and event.llm_response_id != start.llm_response_id:
            found.add(start.id)
        elif not isinstance(event, ActionEvent | ObservationBaseEvent):
            start = None
    return found


def _tell(view: ChatView, message: Message) -> int:
    content = _content(message.content)
    if message.role == "tool" and message.tool_call_id is not None:
        return view.result(message.tool_call_id, content)
    if message.role == "assistant":
        sealed: list[int | None] = [None, 0] if _is_sealed(message) else []
        reasoning = "" if sealed else message.reasoning_content or ""
        return view.answer(content, [], reasoning=reasoning, sealed=sealed, pinned=bool(message.tool_calls))
    if message.role in ("user", "system"):
        return view.say(message.role, content)
    raise RequestError(f"a message of the role {message.role}, which cannot be represented as a chat message")


def _tell_turn(view: ChatView, events: Sequence[Any], *, pinned: bool) -> int:
    first = events[0]
    calls = [call(event.tool_call.id, event.tool_call.name, event.tool_call.arguments) for event in events]
    said = [0] if any(part.text for part in first.thought) else []
    sealed = [None, *said, *range(1, len(calls) + 1)] if _is_sealed(first) else []
    # Where reasoning is sealed, the readable one is the same once more.
    reasoning = "" if sealed else first.reasoning_content or ""
    return view.answer(_content(first.thought), calls, reasoning=reasoning, sealed=sealed, pinned=pinned)


def _is_sealed(holder: Any) -> bool:
    return bool(holder.thinking_blocks or holder.responses_reasoning_item)


def _content(parts: Sequence[Any]) -> Content:
    return [text(part.text) if isinstance(part, TextContent) else opaque(part.type) for part in parts]
