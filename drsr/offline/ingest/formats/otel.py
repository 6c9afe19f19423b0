"""OpenTelemetry traces of agents, by the GenAI or the OpenInference conventions: OTLP JSON, or one span per line.

Each LLM span repeats the history so far; how runs are made of them, `model_calls` tells. Traces that name the same
conversation are one group. Spans may hold others (`child_spans`), or stand in a list of their trace (`spans`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.model_calls import Exchange, ModelCalls
from drsr.offline.ingest.formats.otel_messages import exchange, nested
from drsr.offline.ingest.formats.reader import Found, Reader, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile

_TRACE_KEYS = ("trace_id", "traceId", "context.trace_id")
_START_KEYS = (
    "start_time",
    "startTimeUnixNano",
    "start_time_unix_nano",
    "start_timestamp",
    "startTime",
    "timestamp",
    "timeUnixNano",
)
_RESOURCES = ("resourceSpans", "resource_spans", "resourceLogs")
_ATTRIBUTES = ("attributes", "span_attributes")
_MODEL_CALLS = frozenset({"chat", "generate_content", "text_completion"})


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" in value:  # a chat that was logged with its trace's id is a chat
        return False
    if any(isinstance(value.get(key), list) for key in _RESOURCES):
        return True
    if isinstance(value.get("spans"), list) and _trace(value) is not None:
        return any(_is_span(span) for span in value["spans"][:3])
    return _is_span(value) and _trace(value) is not None


def _is_span(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    named = any(isinstance(value.get(key), dict | list) for key in _ATTRIBUTES)
    return named or any(key.startswith("attributes.") for key in value)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    calls = ModelCalls()
    for record in records:
        for span in _spans(record.value):
            found = _model_call(span)
            if found is not None:
                start = next((span[name] for name in _START_KEYS if span.get(name) is not None), "")
                group = found.conversation or _trace(span) or _trace(record.value) or file.location
                calls.add(found, group, start=str(start), place=record.place)
    if not calls:
        detail = "spans, but none is a model call with its messages; was the capture of content switched off?"
        yield Quarantined(file.location, "no_assistant_message", detail)
    yield from calls.runs()


def _spans(value: Any) -> Iterator[Json]:
    """The spans of a record, whichever of the two forms it has."""
    if not any(dig(value, key) for key in _RESOURCES):
        yield from _with_children(value)
        return
    for resource in _listed(value, *_RESOURCES):
        for scope in _listed(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs"):
            yield from (span for span in _listed(scope, "spans", "logRecords") if isinstance(span, dict))


def _with_children(value: Any) -> Iterator[Json]:
    """A span and all spans inside it, at any depth."""
    pending = [value]
    while pending:
        span = pending.pop()
        if isinstance(span, dict):
            if _is_span(span):
                yield span
            pending.extend(_listed(span, "child_spans", "spans")[::-1])


def _listed(value: Any, *keys: str) -> list[Any]:
    return next((found for key in keys if isinstance(found := dig(value, key), list)), [])


def _model_call(span: Json) -> Exchange | None:
    """The messages of an LLM span; None for every other span."""
    attributes = _attributes(span)
    kind = dig(attributes, "openinference", "span", "kind") or span.get("span_kind")
    operation = dig(attributes, "gen_ai", "operation", "name")
    if isinstance(kind, str) and kind.upper() != "LLM" and "llm" not in attributes:
        return None
    if isinstance(operation, str) and operation not in _MODEL_CALLS:
        return None
    events = span.get("events")
    told = [_event(event) for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    found = exchange(attributes, told)
    return found if found.sent else None


def _event(event: Json) -> Json:
    body = event.get("body")
    return {"name": event.get("name"), **_attributes(event), **(body if isinstance(body, dict) else {})}


def _attributes(span: Json) -> Json:
    """Attributes as a tree, from a map, from OTLP's list of pairs, or from columns that carry the name as a prefix."""
    attributes = next((span[key] for key in _ATTRIBUTES if span.get(key) is not None), None)
    if isinstance(attributes, list):
        pairs = (pair for pair in attributes if isinstance(dig(pair, "key"), str))
        return nested({pair["key"]: _value(pair.get("value")) for pair in pairs})
    if isinstance(attributes, dict):
        return nested(attributes)
    prefix = "attributes."
    return nested({key.removeprefix(prefix): value for key, value in span.items() if key.startswith(prefix)})


def _value(value: Any) -> Any:
    """A value of OTLP's tagged form."""
    if not isinstance(value, dict):
        return value
    for key in ("stringValue", "boolValue", "doubleValue", "intValue"):
        if key in value:
            return value[key]
    if "arrayValue" in value:
        return [_value(item) for item in _listed(value["arrayValue"], "values")]
    pairs = (pair for pair in _listed(value.get("kvlistValue"), "values") if isinstance(dig(pair, "key"), str))
    return {pair["key"]: _value(pair.get("value")) for pair in pairs}


def _trace(span: Json) -> str | None:
    found = (*(span.get(key) for key in _TRACE_KEYS), dig(span, "context", "trace_id"))
    return next((name for name in map(identity, found) if name), None)


READERS = (
    Reader(
        "otel",
        2,
        "OpenTelemetry spans (GenAI or OpenInference conventions; OTLP JSON or one span per line)",
        _recognises,
        _read,
        grouping="stream",
    ),
)
