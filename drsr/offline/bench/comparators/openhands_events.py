"""A request as events of OpenHands' SDK, each with its place as id, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from drsr.offline.bench.comparators.edits import said
from drsr.offline.bench.comparators.peer_messages import SYSTEM_FIELD, Left, Told, arguments, carry_back
from drsr.request.parts import Call, PartRef
from drsr.request.protocol import pair_calls
from drsr.request.request import Request

Events = list[list[Any]]
"""Events of the package for every message that is passed: one for each call, or a single one."""


class Sdk(NamedTuple):
    """The modules of the package that are needed."""

    condenser: Any
    view: Any
    event: Any
    llm: Any
    mcp: Any

    def check(self) -> None:
        """Raise AttributeError if a version of the package lacks something used here."""
        needed = {
            "condenser": ("LLMSummarizingCondenser",),
            "view": ("View",),
            "event": (
                "ActionEvent",
                "CondensationSummaryEvent",
                "MessageEvent",
                "ObservationEvent",
                "SystemPromptEvent",
            ),
            "llm": ("LLM", "LLMResponse", "Message", "MessageToolCall", "MetricsSnapshot", "TextContent"),
            "mcp": ("MCPToolAction", "MCPToolObservation"),
        }
        for module, names in needed.items():
            for name in names:
                getattr(getattr(self, module), name)


def events_of(sdk: Sdk, request: Request, told: Sequence[Told]) -> Events:
    """Return the events, with new ids for calls, because a run may use an id twice."""
    call_of = {result: call for call, result in pair_calls(request).result_of.items()}
    return [_event_group(sdk, request, one, str(place), call_of) for place, one in enumerate(told)]


def _event_group(sdk: Sdk, request: Request, told: Told, place: str, call_of: dict[PartRef, PartRef]) -> list[Any]:
    content = [sdk.llm.TextContent(text=told.text)] if told.text else []
    if told.calls:
        parts = request.messages[told.message].parts
        refs = [PartRef(told.message, number) for number in told.parts if isinstance(parts[number], Call)]
        return [
            sdk.event.ActionEvent(
                id=f"{place}.{number}",
                thought=content if number == 0 else [],
                action=sdk.mcp.MCPToolAction(data=call.arguments if isinstance(call.arguments, dict) else {}),
                tool_name=call.name,
                tool_call_id=_id(ref),
                tool_call=sdk.llm.MessageToolCall(
                    id=_id(ref), name=call.name, arguments=arguments(call), origin="completion"
                ),
                llm_response_id=place,
            )
            for number, (call, ref) in enumerate(zip(told.calls, refs, strict=True))
        ]
    if told.role in ("tool", "function"):
        ref = call_of.get(PartRef(told.message, told.parts[0])) if told.parts else None
        call = request.messages[ref.message].parts[ref.part] if ref else None
        name = call.name if isinstance(call, Call) else ""
        observed = sdk.mcp.MCPToolObservation(content=content, tool_name=name)
        call_id = _id(ref) if ref else f"nobody's {place}"
        return [
            sdk.event.ObservationEvent(
                id=place, tool_name=name, tool_call_id=call_id, observation=observed, action_id=call_id
            )
        ]
    role = told.role if told.role in ("user", "assistant") else "system"
    if role == "system" and place == "0":
        prompt = sdk.llm.TextContent(text=told.text or "")
        return [sdk.event.SystemPromptEvent(id=place, system_prompt=prompt, tools=[])]
    source = {"user": "user", "assistant": "agent", "system": "environment"}[role]
    return [sdk.event.MessageEvent(id=place, source=source, llm_message=sdk.llm.Message(role=role, content=content))]


def _id(ref: PartRef) -> str:
    return f"{ref.message}.{ref.part}"


def from_events(sdk: Sdk, request: Request, told: Sequence[Told], events: Sequence[Any]) -> Request:
    """Return what is left of the request, with the summaries in the package's positions."""
    left: dict[int, Left] = {}
    summaries: list[tuple[int, str]] = []
    for event in events:
        if isinstance(event, sdk.event.CondensationSummaryEvent):
            behind = {one.told.message for one in left.values()} - {SYSTEM_FIELD}
            summaries.append((len(behind), event.summary))
        else:
            place = int(event.id.split(".")[0])
            left[place] = Left(told[place], told[place].text)
    shorter = carry_back(request, list(left.values()))
    messages = list(shorter.messages)
    for added, (place, summary) in enumerate(summaries):
        messages.insert(place + added, said(request, "user", summary or "(nothing to report)"))
    return shorter.with_messages(messages)
