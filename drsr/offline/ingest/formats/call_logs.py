"""Logs of gateways, one model call per line: LiteLLM's payloads, and `{"request": ..., "response": ...}`.

Each call repeats the history so far; how runs are made of them, `model_calls` tells: never one run per call. LiteLLM
gives every call a trace of its own unless the caller names one, so calls are joined across traces as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import text_of
from drsr.offline.ingest.formats.chat_lookalikes import is_litellm_payload
from drsr.offline.ingest.formats.logged_calls import exchange, spelled_out
from drsr.offline.ingest.formats.model_calls import Exchange, ModelCalls
from drsr.offline.ingest.formats.reader import Found, Reader, dig
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_TRACE_KEYS = ("trace_id", "litellm_trace_id", "traceId", "session_id", "conversation_id")
_START_KEYS = ("startTime", "start_time", "timestamp", "created_at", "time")
_BODIES = ("messages", "contents", "input")
_ANSWERS = ("choices", "candidates", "output", "content", "message", "body")
_REDACTED = "redacted-by-litellm"


def _is_payload(value: Any) -> bool:
    return isinstance(value, dict) and is_litellm_payload(value)


def _is_pair(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" in value or "drsr_sandbox" in value:
        return False
    request, response = _sides(value)
    has_body = any(isinstance(dig(_body(request), key), list | str) for key in _BODIES)
    return has_body and any(dig(response, key) is not None for key in _ANSWERS)


def _sides(value: Json) -> tuple[Any, Any]:
    """The request and the response, under either of their names."""
    if "request_body" in value:
        return spelled_out(value["request_body"]), spelled_out(value.get("response_body"))
    return value.get("request"), value.get("response")


def _payload(value: Json) -> Exchange | None:
    sent = {"messages": spelled_out(value.get("messages"))}
    parameters = spelled_out(value.get("model_parameters")) or value.get("optional_params")
    found = exchange(sent, value.get("response"), tools=dig(parameters, "tools") or value.get("tools"))
    if found is not None and any(text_of(message.get("content")) == _REDACTED for message in found.sent):
        raise Unreadable("no_assistant_message", "LiteLLM left the messages out; set turn_off_message_logging to false")
    return found


def _pair(value: Json) -> Exchange | None:
    request, response = _sides(value)
    return exchange(_body(request), _body(response))


def _body(value: Any) -> Any:
    """A request or response, taken out of the HTTP envelope that some logs keep."""
    body = spelled_out(dig(value, "body"))
    return body if isinstance(body, dict) else value


def _reads(
    told: Callable[[Json], Exchange | None], recognises: Callable[[Any], bool]
) -> Callable[[Iterator[Record], SourceFile], Iterator[Found]]:
    def read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
        named, unnamed = ModelCalls(), ModelCalls(are_unique=False)
        for record in records:
            if not recognises(record.value):
                yield Quarantined(record.place, "unknown_format", "no call of a model among those of this log")
                continue
            try:
                found = told(record.value)
            except Unreadable as problem:
                yield Quarantined(record.place, problem.reason, problem.detail)
                continue
            if found is None:
                yield Quarantined(record.place, "no_assistant_message", "a call that sent no messages")
                continue
            trace, start = _trace(record.value), _first(record.value, _START_KEYS) or ""
            if trace:
                named.add(found, trace, start=start, place=record.place)
            else:
                unnamed.add(found, str(record.number), start=start, place=record.place)
        yield from named.runs()
        yield from unnamed.runs()

    return read


def _trace(value: Json) -> str | None:
    nested = ("metadata", "litellm_params", "request")
    found = (_first(dig(value, key), _TRACE_KEYS) for key in nested)
    return _first(value, _TRACE_KEYS) or next(filter(None, found), None)


def _first(value: Any, keys: tuple[str, ...]) -> str | None:
    found = (dig(value, key) for key in keys)
    return next((str(name) for name in found if isinstance(name, str | int | float) and name != ""), None)


READERS = (
    Reader(
        "litellm",
        1,
        "LiteLLM logs, one call per line (`messages`, `response`, `call_type`)",
        _is_payload,
        _reads(_payload, _is_payload),
        grouping="stream",
    ),
    Reader(
        "request_response",
        1,
        "logs of model calls (`request`, `response`)",
        _is_pair,
        _reads(_pair, _is_pair),
        grouping="stream",
    ),
)
