"""OpenHands V0: `output.jsonl` with a `history` of action and observation events, or the events themselves.

An action's `tool_call_metadata` holds the model's own message, which is taken word for word; several actions of one
response are one message. Events without it (agents that act in plain text) are paired by `cause`. Left out, because the
model never saw them as messages: state changes, and `recall`, whose text is not recorded as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.compaction import Forgotten, stretch_id, views, with_an_answer
from drsr.offline.ingest.formats.openai_chat import reasoning_of
from drsr.offline.ingest.formats.opening_task import opening_task
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity, malformed, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_SILENT = frozenset({"recall", "change_agent_state", "agent_state_changed", "null", "condensation_request", "condense"})
_BOOKKEEPING = frozenset(
    {
        *("thought", "hidden", "confirmation_state", "is_static", "blocking", "cwd", "is_input", "security_risk"),
        "impl_source",
    }
)


def is_event(value: Any) -> bool:
    """Return whether a value is one event of a V0 event stream."""
    if not isinstance(value, dict) or not {"source", "timestamp"} <= value.keys() or "kind" in value:
        return False
    return _is_action(value) or _is_observation(value)


def _is_action(event: Json) -> bool:
    return isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)


def _is_observation(event: Json) -> bool:
    return isinstance(event.get("observation"), str) and "content" in event


def _is_run(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    history = value.get("history")
    first = history[0] if isinstance(history, list) and history else None
    first = first[0] if isinstance(first, list) and first else first  # before 0.9: pairs of action and observation
    return isinstance(first, dict) and "role" not in first and (_is_action(first) or _is_observation(first))


def _read_runs(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    for record in records:
        value = record.value
        instance = identity(value.get("instance_id"))
        report = dig(value, "report", "resolved")
        reward = score(report if report is not None else dig(value, "test_result", "report", "resolved"))
        events = _flat(as_list(value.get("history"), "history"))
        yield from _runs(events, record.place, instance, value.get("instruction"), reward)


def _read_events(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    events = [record.value for record in records if is_event(record.value)]
    numbers = [event.get("id") for event in events]
    if all(isinstance(number, int) for number in numbers) and len(set(numbers)) == len(numbers):
        events.sort(key=lambda event: int(event["id"]))  # its own files are called 0.json, 1.json, 10.json, 2.json, ...
    runs = list(_runs(events, file.location, None, None, None))
    task = opening_task(runs[0].request) if runs else None
    yield from (replace(run, task=task) for run in runs)


def _runs(
    events: list[Json], place: str, instance: str | None, instruction: Any, reward: float | None
) -> Iterator[Run]:
    runs = []
    for stretch, view in enumerate(views(events, _condensation)):
        conversation = _Conversation(cut=stretch > 0)
        for event in view.preserved:
            conversation.add(event)
        conversation.only_history()
        for event in view.events:
            conversation.add(event)
        request = conversation.request(instruction if isinstance(instruction, str) else None)
        local_id = stretch_id(instance or ("session" if stretch else None), stretch)
        runs.append(Run(place, "openai", request, local_id=local_id, task=instance, domain="code", reward=reward))
    yield from with_an_answer(runs)


class _Conversation:
    def __init__(self, *, cut: bool) -> None:
        self._chat = Chat(cut=cut)
        self._response: Any = None
        self._tools: list[Any] = []

    def request(self, instruction: str | None) -> Json:
        """Return the request; the instruction is the task where no user message records it."""
        messages = self._chat.messages()
        if instruction and not any(message["role"] == "user" for message in messages):
            messages.insert(sum(message["role"] == "system" for message in messages[:1]), _user(instruction))
        return {"messages": messages, "tools": self._tools} if self._tools else {"messages": messages}

    def only_history(self) -> None:
        """Mark what was added so far as decided in an earlier stretch."""
        self._chat.only_history()

    def add(self, event: Json) -> None:
        action, observation = event.get("action"), event.get("observation")
        if isinstance(action, str) and action not in _SILENT:
            self._act(action, event)
        elif isinstance(observation, str) and observation not in _SILENT:
            self._observe(event)

    def _act(self, action: str, event: Json) -> None:
        args = as_dict(event.get("args") or {}, "args")
        metadata = event.get("tool_call_metadata")
        if action == "system":
            self._chat.say("system", args.get("content"))
            self._tools = [] if args.get("tools") is None else as_list(args["tools"], "tools")
        elif isinstance(metadata, dict):
            self._respond(metadata)
        elif action == "message" and event.get("source") == "agent":
            self._chat.answer(args.get("content"))
        elif action == "message":
            self._chat.say("user", _with_images(args.get("content"), args.get("image_urls")))
        elif event.get("source") == "agent":
            call = tool_call(action, _arguments(args), f"event_{event.get('id')}")
            self._chat.answer(args.get("thought") or None, [call])

    def _respond(self, metadata: Json) -> None:
        """The model's message, once for all actions of one response."""
        response = dig(metadata, "model_response", "id")
        if response is not None and self._response == response:
            return
        self._response = response
        choices = dig(metadata, "model_response", "choices")
        message = dig(choices[0], "message") if isinstance(choices, list) and choices else None
        if not isinstance(message, dict):
            raise malformed("tool_call_metadata.model_response", "a response with one choice", choices)
        calls = as_list(message.get("tool_calls") or [], "tool_calls")
        self._chat.answer(message.get("content"), calls, reasoning=reasoning_of(message))

    def _observe(self, event: Json) -> None:
        metadata = event.get("tool_call_metadata")
        cause = f"event_{event.get('cause')}"
        if isinstance(metadata, dict):
            self._chat.result(metadata.get("tool_call_id"), event.get("content"), name=_name(metadata))
        elif self._chat.waits_for(cause):
            self._chat.result(cause, event.get("content"))
        else:  # an error that answers no call is told to the model as a message
            self._chat.say("user", event.get("content"))


def _user(text: str) -> Json:
    return {"role": "user", "content": text}


def _with_images(content: Any, images: Any) -> Any:
    if not isinstance(images, list) or not images:
        return content
    parts: list[Json] = [{"type": "text", "text": content}]
    return [*parts, *({"type": "image_url", "image_url": {"url": url}} for url in images)]


def _condensation(event: Json) -> Forgotten | None:
    if event.get("action") != "condensation":
        return None
    args = as_dict(event.get("args") or {}, "args")
    ids = args.get("forgotten_event_ids")
    first, last = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
    if isinstance(first, int) and isinstance(last, int) and last - first < 1_000_000:
        ids = list(range(first, last + 1))
    summary = None
    if isinstance(args.get("summary"), str) and args["summary"]:
        summary = {"source": "user", "action": "message", "args": {"content": args["summary"]}}
    offset = args.get("summary_offset")
    known = [name for name in ids if isinstance(name, int | str)] if isinstance(ids, list) else []
    return Forgotten(frozenset(known), summary, offset if isinstance(offset, int) else 1)


def _arguments(args: Json) -> Json:
    return {key: value for key, value in args.items() if key not in _BOOKKEEPING and value is not None}


def _name(metadata: Json) -> str | None:
    name = metadata.get("function_name")
    return name if isinstance(name, str) else None


def _flat(history: list[Any]) -> list[Json]:
    flat = [event for item in history for event in (item if isinstance(item, list) else [item])]
    return [event for event in flat if isinstance(event, dict)]


READERS = (
    Reader("openhands_v0", 3, "OpenHands V0 output (`history` of events)", _is_run, _read_runs),
    Reader(
        "openhands_v0_events",
        4,
        "OpenHands V0 events, one per line, list element or file",
        is_event,
        _read_events,
        grouping="session",
    ),
)
