"""OpenHands SDK (V1): a folder with one JSON file per event, or the same events as lines or as a list.

Actions of one model response (`llm_response_id`) are one assistant message. Rejections and agent errors answer their
call like observations do. A condensation starts a new stretch (`compaction`). Events that the model never sees (state
updates, pauses) are left out. No event names the task: the opening does (`opening_task`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, joined, read_content, text_of
from drsr.offline.ingest.formats.compaction import Forgotten, stretch_run, views, with_an_answer
from drsr.offline.ingest.formats.openai_chat import reasoning_of
from drsr.offline.ingest.formats.opening_task import opening_task
from drsr.offline.ingest.formats.reader import Found, Reader, as_dict, as_list, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_KINDS = frozenset(
    {
        *("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation"),
        *("AgentErrorEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent", "PauseEvent"),
        *("ConversationStateUpdateEvent", "ConversationErrorEvent", "TokenEvent"),
    }
)


def is_event(value: Any) -> bool:
    """Return whether a value is one event of an SDK conversation."""
    if not isinstance(value, dict) or not {"id", "kind", "source"} <= value.keys():
        return False
    kind = value["kind"]
    return isinstance(kind, str) and (kind in _KINDS or (kind.endswith("Event") and "timestamp" in value))


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    events = [record.value for record in records if is_event(record.value)]
    times = [event.get("timestamp") for event in events]
    stamps = [time for time in times if isinstance(time, str)]
    if len(stamps) == len(events) and any(later < earlier for earlier, later in zip(stamps, stamps[1:], strict=False)):
        events.sort(key=lambda event: str(event["timestamp"]))  # the files' names did not sort in order of time
    runs = []
    for stretch, view in enumerate(views(events, _condensation)):
        conversation = _Conversation(cut=stretch > 0)
        for event in view.preserved:
            conversation.add(event)
        conversation.only_history()
        for event in view.events:
            conversation.add(event)
        runs.append(stretch_run(file.location, conversation.request(), None, stretch, task=None))
    task = opening_task(runs[0].request)  # of the first stretch: in later ones a summary may stand in its place
    yield from (replace(run, task=task, only_session=False) for run in with_an_answer(runs))


class _Conversation:
    def __init__(self, *, cut: bool) -> None:
        self._chat = Chat(cut=cut)
        self._response: Any = None
        self._tools: list[Any] = []

    def request(self) -> Json:
        messages = {"messages": self._chat.messages()}
        return {**messages, "tools": self._tools} if self._tools else messages

    def only_history(self) -> None:
        """Mark what was added so far as decided in an earlier stretch."""
        self._chat.only_history()

    def add(self, event: Json) -> None:
        kind = event["kind"]
        if kind == "ActionEvent":
            self._action(event)
            return
        if kind == "ObservationEvent":
            content = joined(_observed(event.get("observation")), read_content(event.get("extended_content"), "tool"))
            self._chat.result(event.get("tool_call_id"), content, name=identity(event.get("tool_name")))
        elif kind == "UserRejectObservation":
            self._chat.result(event.get("tool_call_id"), f"Action rejected: {event.get('rejection_reason')}")
        elif kind == "AgentErrorEvent":
            self._error(event)
        elif kind == "SystemPromptEvent":
            prompt, context = (read_content(event.get(key), "system") for key in ("system_prompt", "dynamic_context"))
            self._chat.say("system", joined(prompt, context))
            tools = [] if event.get("tools") is None else as_list(event["tools"], "tools")
            self._tools = [tool for tool in tools if dig(tool, "function")]
        elif kind == "CondensationSummaryEvent":
            self._chat.say("user", event.get("summary"))
        elif kind == "MessageEvent":
            self._message(event)

    def _action(self, event: Json) -> None:
        calls = [as_dict(event.get("tool_call"), "tool_call")]
        thought = event.get("thought") or None
        response = event.get("llm_response_id")
        if response is not None and response == self._response:
            self._chat.extend_answer(thought, calls)
        else:
            self._chat.answer(thought, calls, reasoning=reasoning_of(event))
        self._response = response

    def _message(self, event: Json) -> None:
        message = as_dict(event.get("llm_message"), "llm_message")
        content = joined(
            read_content(message.get("content"), "message"), read_content(event.get("extended_content"), "message")
        )
        if message.get("role") == "assistant":
            calls = as_list(message.get("tool_calls") or [], "tool_calls")
            self._chat.answer(content, calls, reasoning=reasoning_of(message))
        else:
            self._chat.say(str(message.get("role")), content)

    def _error(self, event: Json) -> None:
        """An error of the agent itself: the answer to its call, or a message to the model if there was no call."""
        if event.get("tool_call_id"):
            self._chat.result(event["tool_call_id"], event.get("error"))
        else:
            self._chat.say("user", event.get("error"))


def _observed(observation: Any) -> Any:
    """Return what the model saw of an observation: `content`; before that field existed, `output` or `error`."""
    for key in ("content", "output", "error"):
        found = dig(observation, key)
        if isinstance(found, str) and found:
            return found
        if isinstance(found, list) and found:
            return read_content(found, "tool")
    return text_of(observation) or None


def _condensation(event: Json) -> Forgotten | None:
    if event["kind"] != "Condensation":
        return None
    ids = event.get("forgotten_event_ids")
    known = frozenset(name for name in ids if isinstance(name, str)) if isinstance(ids, list) else frozenset()
    summary, offset = event.get("summary"), event.get("summary_offset")
    if not isinstance(summary, str) or not summary or not isinstance(offset, int):
        return Forgotten(known, None, 0)  # the view holds a summary only where it has a place
    return Forgotten(
        known, {"kind": "CondensationSummaryEvent", "summary": summary, "id": f"{event.get('id')}-summary"}, offset
    )


READERS = (
    Reader(
        "openhands_sdk",
        4,
        "OpenHands SDK events (`kind`: ActionEvent, ObservationEvent, ...)",
        is_event,
        _read,
        grouping="session",
    ),
)
