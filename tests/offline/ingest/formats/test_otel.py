"""Spans in every spelling in use."""

from __future__ import annotations

import copy
import json
from itertools import permutations
from typing import Any

import pytest

from drsr.offline.ingest.formats.model_calls import Exchange
from drsr.offline.ingest.formats.otel_messages import nested
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_json, as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import CHAT, GEN_AI, OPEN_INFERENCE, span

Json = dict[str, Any]
WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


def runs(values: list[Any]) -> list[Trajectory]:
    return [item for item in read_bytes(as_lines(values)) if isinstance(item, Trajectory)]


def test_the_span_with_the_longest_history_and_its_output() -> None:
    trajectory = one(read_bytes(as_lines(OPEN_INFERENCE)))
    assert trajectory.request["messages"] == CHAT
    assert (trajectory.external_id, trajectory.task) == ("0xabc", "0xabc")


def test_order_does_not_matter() -> None:
    assert runs(OPEN_INFERENCE[::-1])[0].request["messages"] == CHAT


def test_parts_of_the_current_convention_in_otlp() -> None:
    trajectory = one(read_value(GEN_AI))
    assert shape(trajectory) == WHOLE
    messages = trajectory.request["messages"]
    assert messages[0]["content"] == "You fix bicycles."
    assert messages[2]["reasoning_content"] == "hm"
    assert messages[3] == {"role": "tool", "tool_call_id": "g1", "content": "rusty"}


def test_otlp_one_request_per_line() -> None:
    assert shape(runs([GEN_AI, GEN_AI])[0]) == WHOLE


def test_columns_with_a_prefix_and_nested_messages() -> None:
    row = {
        "context.trace_id": "t1",
        "span_kind": "LLM",
        "start_time": "1",
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": "go"}],
        "attributes.llm.output_messages": [{"message": {"role": "assistant", "content": "done"}}],
    }
    assert shape(runs([row, row])[0]) == ["user", "assistant"]


def test_sub_agents_of_a_trace_are_runs_of_their_own() -> None:
    other = [{"role": "system", "content": "You count."}, {"role": "user", "content": "Count."}]
    values = [*OPEN_INFERENCE, span("0xabc", 3, other, [{"role": "assistant", "content": "Three."}])]
    found = runs(values)
    assert [item.external_id for item in found] == ["0xabc", "0xabc/2"]
    assert {item.task for item in found} == {"0xabc"}


def test_traces_of_one_conversation_are_one_run() -> None:
    values = copy.deepcopy(OPEN_INFERENCE[1:])
    values[1]["context"]["trace_id"] = "0xother"
    for value in values:
        value["attributes"]["session.id"] = "talk-1"
    assert [item.external_id for item in runs(values)] == ["talk-1"]


def test_messages_as_span_events() -> None:
    call = json.dumps([{"id": "e1", "type": "function", "function": {"name": "look", "arguments": "{}"}}])
    events = [
        {"name": "gen_ai.system.message", "attributes": {"content": "You fix bicycles."}},
        {"name": "gen_ai.user.message", "attributes": {"content": "It squeaks."}},
        {"name": "gen_ai.assistant.message", "attributes": {"content": None, "tool_calls": call}},
        {"name": "gen_ai.tool.message", "attributes": {"id": "e1", "content": "rusty"}},
        {"name": "gen_ai.choice", "attributes": {"index": 0, "message": '{"content": "Oil it."}'}},
    ]
    value = {"trace_id": "t", "attributes": {"gen_ai.operation.name": "chat"}, "events": events}
    assert shape(one(read_value(value))) == WHOLE


def test_numbered_prompts() -> None:
    attributes = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "go",
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.tool_calls.0.id": "n1",
        "gen_ai.prompt.1.tool_calls.0.name": "look",
        "gen_ai.prompt.1.tool_calls.0.arguments": "{}",
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.tool_call_id": "n1",
        "gen_ai.prompt.2.content": "rusty",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Oil it.",
    }
    assert shape(one(read_value({"traceId": "t", "attributes": attributes}))) == WHOLE[1:]


def test_calls_without_ids_are_paired_in_order() -> None:
    values = copy.deepcopy(OPEN_INFERENCE)
    attributes = values[2]["attributes"]
    del attributes["llm.input_messages.2.message.tool_calls.0.tool_call.id"]
    del attributes["llm.input_messages.3.message.tool_call_id"]
    messages = runs(values)[0].request["messages"]
    assert messages[2]["tool_calls"][0]["id"] == messages[3]["tool_call_id"] == "call_0001"


def test_concatenated_documents_as_the_console_prints_them() -> None:
    data = b"\n".join(json.dumps(value, indent=4).encode() for value in OPEN_INFERENCE)
    assert one(read_bytes(data)).request["messages"] == CHAT


def test_spans_without_messages() -> None:
    value = {"traceId": "t", "attributes": {"gen_ai.operation.name": "chat"}}
    problem = only_problem(read_bytes(as_json([value, value])))
    assert problem.reason == "no_assistant_message"
    assert "content" in problem.detail


def test_other_spans_are_left_out() -> None:
    value = copy.deepcopy(GEN_AI)
    attributes = value["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes[0]["value"]["stringValue"] = "invoke_agent"
    assert only_problem(read_value(value)).reason == "no_assistant_message"


def test_dotted_keys_that_contradict_each_other() -> None:
    assert nested({"a": 1, "a.b": 2}) == {"a": 1}
    assert nested({"a.b": 2, "a": 1}) == {"a": {"b": 2}}
    assert nested({"a": {"b": 1}, "a.c": 2}) == {"a": {"b": 1, "c": 2}}


def _turns(*texts: str) -> list[Json]:
    roles = ["system", "user"] + ["assistant", "user"] * len(texts)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


ANSWER = [{"role": "assistant", "content": "Well."}]
OPENING = ("You fix bicycles.", "Mend it.")
COMPACTED = [
    span("0xabc", 1, _turns(*OPENING), ANSWER),
    span("0xabc", 2, _turns(*OPENING, "Well.", "Go on.", "Well.", "And on."), ANSWER),
    span("0xabc", 3, _turns(*OPENING, "So far: all is well.", "Go on."), ANSWER),
    span("0xabc", 4, _turns(*OPENING, "So far: all is well.", "Go on.", "Well.", "To the end."), ANSWER),
]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_histories_that_did_not_grow_out_of_one_another_are_stretches(order: tuple[int, ...]) -> None:
    """After a compaction the history is shorter, and no beginning of the longest one."""
    found = runs([COMPACTED[place] for place in order])
    assert [(run.external_id, len(run.request["messages"]), run.task) for run in found] == [
        ("0xabc", 7, "0xabc"),
        ("0xabc/stretch-2", 7, "0xabc"),
    ]
    assert [run.request["messages"][2]["content"] for run in found] == ["Well.", "So far: all is well."]


def test_a_shorter_history_after_a_longer_one_is_kept() -> None:
    found = runs(COMPACTED[:3])
    assert [len(run.request["messages"]) for run in found] == [7, 5]


def test_reasoning_that_later_requests_leave_out_says_nothing_new() -> None:
    plain = _turns(*OPENING, "Well.", "Go on.")
    thinking = [message | {"reasoning_content": "hm"} for message in plain]
    assert Exchange(thinking, [], [], None).said == Exchange(plain, [], [], None).said
    calling = [message | {"tool_calls": [{"id": "c"}]} for message in plain]
    assert Exchange(calling, [], [], None).said != Exchange(plain, [], [], None).said


def test_a_call_that_was_repeated_is_told_by_its_last_answer() -> None:
    sent = _turns(*OPENING)
    later = span("t", 2, sent, [{"role": "assistant", "content": "Second try."}])
    for values in ([span("t", 1, sent, ANSWER), later], [later, span("t", 1, sent, ANSWER)]):
        (run,) = runs(values)
        assert run.request["messages"][-1]["content"] == "Second try."


def _child(number: int, sent: list[Json], received: list[Json], children: list[Json]) -> Json:
    return {
        "timestamp": f"2026-01-01T00:00:{number:02d}Z",
        "trace_id": "tree",
        "span_id": f"s{number}",
        "span_attributes": span("tree", number, sent, received)["attributes"],
        "child_spans": children,
    }


def test_spans_within_spans() -> None:
    inner = _child(2, CHAT[:4], CHAT[4:], [])
    outer = _child(1, CHAT[:2], CHAT[2:3], [inner])
    agent = {"trace_id": "tree", "span_attributes": {"openinference.span.kind": "AGENT"}, "child_spans": [outer]}
    for value in (agent, {"trace_id": "tree", "spans": [agent]}):
        trajectory = one(read_value(value))
        assert (trajectory.request["messages"], trajectory.external_id) == (CHAT, "tree")


def test_traces_that_go_on_from_one_another_are_one_run() -> None:
    """Every turn of a user is a trace of its own in many applications."""
    values = [
        span("first", 1, _turns(*OPENING), ANSWER),
        span("second", 2, _turns(*OPENING, "Well.", "Go on."), ANSWER),
    ]
    for order in (values, values[::-1]):
        assert [(run.external_id, len(run.request["messages"])) for run in runs(order)] == [("first", 5)]
    other = span("second", 2, _turns(*OPENING, "Otherwise.", "Go on."), ANSWER)
    assert len(runs([values[0], other])) == 2


def test_log_records_of_model_calls() -> None:
    attributes = GEN_AI["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    record = {"timeUnixNano": "1", "traceId": "t", "eventName": "gen_ai.client.inference", "attributes": attributes}
    value = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    assert shape(one(read_value(value))) == WHOLE
