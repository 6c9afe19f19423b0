"""LangSmith exports: one run per line (`run_type`, `inputs`, `outputs`, `trace_id`), or trees by `child_runs`.

Only runs of type `llm` are model calls; each repeats the history so far (`model_calls`). Chains hold what an agent's
program passed around, without the system prompt, so a trace without its model calls is not read. A thread
(`thread_id`, `session_id` or `conversation_id` of its metadata) is the task of its traces.
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

_TYPES = ("llm", "chain", "tool", "retriever", "embedding", "prompt", "parser")
_MARKS = ("trace_id", "dotted_order", "parent_run_id", "child_runs", "session_name", "execution_order")
_THREAD_KEYS = ("thread_id", "session_id", "conversation_id")


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or "attributes" in value:
        return False
    return value.get("run_type") in _TYPES and "inputs" in value and not value.keys().isdisjoint(_MARKS)


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    calls = ModelCalls()
    for record in records:
        for run, trace, thread in _runs(record.value):
            try:
                _add(calls, run, trace, thread, record.place)
            except Unreadable as problem:
                yield Quarantined(f"{record.place} run {trace}", problem.reason, problem.detail)
    if not calls:
        detail = (
            "runs, but none is a model call with its messages; export the traces' child runs too "
            "(run_type llm, with inputs and outputs), not only their root runs"
        )
        yield Quarantined(file.location, "no_assistant_message", detail)
    yield from calls.runs()


def _runs(value: Any) -> Iterator[tuple[Json, str, str | None]]:
    """A run and its descendants, each with its trace and its thread."""
    pending: list[tuple[Any, str | None, str | None]] = [(value, None, None)]
    while pending:
        run, trace, thread = pending.pop()
        if not isinstance(run, dict):
            continue
        trace = identity(run.get("trace_id")) or trace or identity(run.get("id"))
        metadata = dig(spelled_out(run.get("extra")), "metadata")
        named = (identity(dig(metadata, key)) for key in _THREAD_KEYS)
        thread = identity(run.get("thread_id")) or next(filter(None, named), thread)
        if trace:
            yield run, trace, thread
        children = run.get("child_runs")
        pending.extend((child, trace, thread) for child in (children if isinstance(children, list) else [])[::-1])


def _add(calls: ModelCalls, run: Json, trace: str, thread: str | None, place: str) -> None:
    if run.get("run_type") != "llm":
        return
    parameters = dig(spelled_out(run.get("extra")), "invocation_params")
    found = exchange(run.get("inputs"), run.get("outputs"), tools=dig(parameters, "tools"))
    if found is not None:
        start = str(run.get("dotted_order") or run.get("start_time") or "")
        calls.add(found, trace, start=start, place=place, task=thread)


READERS = (
    Reader(
        "langsmith",
        1,
        "LangSmith runs (`run_type`, `inputs`, `outputs`, `trace_id`)",
        _recognises,
        _read,
        grouping="stream",
    ),
)
