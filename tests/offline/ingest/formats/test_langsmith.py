"""LangSmith runs: LangChain's messages, plain bodies, trees, and exports of root runs only."""

from __future__ import annotations

import copy
import json
from typing import Any

from drsr.offline.ingest.formats.langchain_messages import chat_message
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, CHAT, LANGCHAIN, LANGSMITH, SYSTEM, TOOL

Json = dict[str, Any]
WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


def test_langchains_messages_and_generations() -> None:
    trajectory = one(read_bytes(as_lines(LANGSMITH)))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[4]["content"]] == [SYSTEM, ANSWER]
    assert messages[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert messages[3]["tool_call_id"] == "c1"
    assert trajectory.request["tools"] == [TOOL]
    assert (trajectory.external_id, trajectory.task) == ("root-1", "thread-1")


def test_a_tree_of_child_runs() -> None:
    assert shape(one(read_value({**LANGSMITH[0], "child_runs": LANGSMITH[1:]}))) == WHOLE


def test_bodies_of_a_client_that_was_wrapped() -> None:
    runs = copy.deepcopy(LANGSMITH)
    for run, length in zip(runs[1:], (2, 4), strict=True):
        run["inputs"] = {"messages": CHAT[:length], "tools": [TOOL]}
        run["outputs"] = {"choices": [{"message": CHAT[length]}]}
        run["extra"] = None
    assert one(read_bytes(as_lines(runs))).request == {"messages": CHAT, "tools": [TOOL]}


def test_columns_of_a_bulk_export_are_json_in_strings() -> None:
    runs = [
        {key: json.dumps(value) if key in ("inputs", "outputs", "extra") else value for key, value in run.items()}
        for run in LANGSMITH
    ]
    assert shape(one(read_bytes(as_lines(runs)))) == WHOLE


def test_root_runs_only_say_what_to_export() -> None:
    problem = only_problem(read_value(LANGSMITH[0]))
    assert (problem.reason, "child runs" in problem.detail) == ("no_assistant_message", True)


def test_the_three_ways_to_write_a_message_down() -> None:
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}, {"type": "tool_use"}]
    fields = {"content": content, "tool_calls": [call]}
    expected = {
        "role": "assistant",
        "content": [{"type": "text", "text": "I look."}],
        "tool_calls": [call],
        "reasoning_content": "hm",
    }
    assert chat_message({"type": "ai", **fields}) == expected
    assert chat_message({"type": "ai", "data": fields}) == expected
    assert chat_message({"lc": 1, "type": "constructor", "id": ["AIMessageChunk"], "kwargs": fields}) == expected
    assert chat_message({"type": "ai", "content": "x", "additional_kwargs": {"tool_calls": [call]}}) == {
        "role": "assistant",
        "content": "x",
        "tool_calls": [call],
    }
    assert chat_message({"type": "weather", "content": "x"}) is None
    assert chat_message(LANGCHAIN[0]) == CHAT[0]
