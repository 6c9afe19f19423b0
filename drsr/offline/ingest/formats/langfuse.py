"""Langfuse exports: traces with their `observations`, or one observation per line (`type`: GENERATION, SPAN, ...).

Only generations are model calls; each repeats the history so far (`model_calls`). A trace's `sessionId` is what several
traces have in common, and is the task of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.logged_calls import exchange, spelled_out
from drsr.offline.ingest.formats.model_calls import ModelCalls
from drsr.offline.ingest.formats.reader import Found, Reader, dig, identity
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_TYPES = frozenset(
    {
        *("GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING"),
        "GUARDRAIL",
    }
)
_TRACE_MARKS = ("projectId", "htmlPath", "project_id", "totalCost", "latency", "scores", "trace", "sessionId")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return _is_observation(value) or _is_trace(value) or _is_page(value)


def _is_observation(value: Any) -> bool:
    kind = dig(value, "type")
    if not isinstance(kind, str) or kind not in _TYPES or "attributes" in value:
        return False
    return bool(_trace_id(value)) and not value.keys().isdisjoint(("startTime", "start_time"))


def _is_trace(value: Any) -> bool:
    observations = dig(value, "observations")
    if not isinstance(observations, list) or "history" in value or "attributes" in value:
        return False
    if any(_is_observation(observation) for observation in observations[:3]):
        return True
    named = not observations or isinstance(observations[0], str)
    return named and isinstance(value.get("id"), str) and sum(key in value for key in _TRACE_MARKS) >= 2


def _is_page(value: Json) -> bool:
    """Return whether this is a page of the public API: `data` with `meta`."""
    data = value.get("data")
    if not isinstance(data, list) or not data or not isinstance(value.get("meta"), dict):
        return False
    return _is_observation(data[0]) or _is_trace(data[0])


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    calls = ModelCalls()
    for record in records:
        for observation, session in _observations(record.value):
            try:
                _add(calls, observation, session, record.place)
            except Unreadable as problem:
                place = f"{record.place} observation {dig(observation, 'id')!s:.80}"
                yield Quarantined(place, problem.reason, problem.detail)
    if not calls:
        detail = (
            "traces, but no generation with its messages; export the observations too, with input and output "
            "(Download JSON of a trace, or the observations table as JSONL)"
        )
        yield Quarantined(file.location, "no_assistant_message", detail)
    yield from calls.runs()


def _observations(value: Any) -> Iterator[tuple[Json, str | None]]:
    """Every observation of a record, with the session that its trace names."""
    if not isinstance(value, dict):
        return
    if _is_page(value):
        for item in value["data"]:
            yield from _observations(item)
    elif _is_trace(value):
        trace = value["trace"] if isinstance(value.get("trace"), dict) else value
        session = identity(trace.get("sessionId")) or identity(trace.get("session_id"))
        for observation in value["observations"]:
            if isinstance(observation, dict):
                yield {"traceId": trace.get("id"), **observation}, session
    elif _is_observation(value):
        yield value, identity(value.get("sessionId")) or identity(value.get("session_id"))


def _add(calls: ModelCalls, observation: Json, session: str | None, place: str) -> None:
    trace = _trace_id(observation)
    if observation.get("type") != "GENERATION" or trace is None:
        return
    sent = spelled_out(observation.get("input"))
    parameters = observation.get("modelParameters", observation.get("model_parameters"))
    found = exchange(sent, observation.get("output"), tools=spelled_out(dig(spelled_out(parameters), "tools")))
    if found is not None:
        start = str(observation.get("startTime", observation.get("start_time", "")))
        calls.add(found, trace, start=start, place=place, task=session)


def _trace_id(value: Json) -> str | None:
    return identity(value.get("traceId")) or identity(value.get("trace_id"))


READERS = (
    Reader(
        "langfuse",
        1,
        "Langfuse exports (`observations`, or one observation per line)",
        _recognises,
        _read,
        grouping="stream",
    ),
)
