"""OpenTelemetry traces of agents, by the GenAI or the OpenInference conventions: OTLP JSON, or one span per line.

Each LLM span repeats the history so far, so the span that sent the longest history holds the run, and its output is the
last thing said. Spans of one trace that start a different conversation (sub-agents) are runs of their own. Traces that
name the same conversation are one run as long as they begin alike. A span whose history is no beginning of the longest
one, as after a compaction, belongs to a stretch of its own: no span is dropped that says something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from drsr.offline.ingest.formats.openai_chat import conversation
from drsr.offline.ingest.formats.otel_messages import Exchange, exchange, nested
from drsr.offline.ingest.formats.reader import Found, Reader, Run, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_TRACE_KEYS = ("trace_id", "traceId", "context.trace_id")
_START_KEYS = ("start_time", "startTimeUnixNano", "start_time_unix_nano", "start_timestamp", "startTime")
_MODEL_CALLS = frozenset({"chat", "generate_content", "text_completion"})


class _Stretch(NamedTuple):
    """The longest history so far of those that grew out of one another."""

    exchange: Exchange
    said: list[bytes]
    """By message sent, a digest of what it says."""
    start: str
    place: str

    def grew_from(self, other: _Stretch) -> bool:
        return self.said[: len(other.said)] == other.said


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" in value:  # a chat that was logged with its trace's id is a chat
        return False
    if isinstance(value.get("resourceSpans"), list) or isinstance(value.get("resource_spans"), list):
        return True
    has_attributes = isinstance(value.get("attributes"), dict | list) or any(
        key.startswith("attributes.") for key in value
    )
    return has_attributes and _trace(value) is not None


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    conversations: dict[tuple[str, bytes], list[_Stretch]] = {}
    for record in records:
        for span in _spans(record.value):
            found = _model_call(span)
            if found is None:
                continue
            group = found.conversation or _trace(span) or file.location
            start = str(next((span[name] for name in _START_KEYS if span.get(name) is not None), ""))
            stretch = _Stretch(found, found.said, start, record.place)
            key = (group, found.opening)
            conversations[key] = _with(conversations.get(key, []), stretch)
    if not conversations:
        detail = "spans, but none is a model call with its messages; was the capture of content switched off?"
        yield Quarantined(file.location, "no_assistant_message", detail)
    seen: dict[str, int] = {}
    for (group, _), stretches in conversations.items():
        number = seen[group] = seen.get(group, 0) + 1
        name = group if number == 1 else f"{group}/{number}"
        for place, chosen in enumerate(sorted(stretches, key=lambda stretch: (stretch.start, stretch.said))):
            try:
                yield _run(chosen, name if place == 0 else f"{name}/stretch-{place + 1}", group)
            except Unreadable as problem:
                yield Quarantined(f"{chosen.place} trace {group}", problem.reason, problem.detail)


def _with(stretches: list[_Stretch], new: _Stretch) -> list[_Stretch]:
    """The stretches with one more history: those that it grew from are part of it, as it may be part of another."""
    for held in stretches:
        if held.grew_from(new) and (len(held.said), held.start) > (len(new.said), new.start):
            return stretches
    return [held for held in stretches if not new.grew_from(held)] + [new]


def _run(chosen: _Stretch, name: str, group: str) -> Run:
    request: Json = {"messages": conversation([*chosen.exchange.sent, *chosen.exchange.received])}
    if chosen.exchange.tools:
        request["tools"] = chosen.exchange.tools
    return Run(f"{chosen.place} trace {group}", "openai", request, run_id=name, task=group)


def _spans(value: Any) -> Iterator[Json]:
    """The spans of a record, whichever of the two forms it has."""
    resources = dig(value, "resourceSpans") or dig(value, "resource_spans")
    if not isinstance(resources, list):
        if isinstance(value, dict):
            yield value
        return
    for resource in resources:
        for scope in _listed(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            yield from (span for span in _listed(scope, "spans") if isinstance(span, dict))


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
    attributes = span.get("attributes")
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
        name="otel",
        version=1,
        title="OpenTelemetry spans (GenAI or OpenInference conventions; OTLP JSON or one span per line)",
        recognises=_recognises,
        read=_read,
        grouping="stream",
    ),
)
