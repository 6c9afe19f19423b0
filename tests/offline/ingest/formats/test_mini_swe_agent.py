"""mini-swe-agent in its three ways of writing messages."""

from __future__ import annotations

import json
from typing import Any

from tests.offline.ingest.formats.files import one, read_value, shape
from tests.offline.ingest.formats.miniatures import MINI_CALLS, MINI_TEXT


def test_fenced_commands_and_the_submission_that_answers_nothing() -> None:
    trajectory = one(read_value(MINI_TEXT))
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool", "assistant", "user", "assistant+1"]
    call = trajectory.request["messages"][2]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"command": "ls"}
    assert trajectory.request["messages"][2]["content"] == "THOUGHT: look"
    assert trajectory.task == "bikes__wheel-13"


def test_tool_calls_and_the_role_exit() -> None:
    trajectory = one(read_value(MINI_CALLS))
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool", "assistant+1"]
    assert "extra" not in trajectory.request["messages"][2]


def test_a_bare_list_that_ends_with_exit() -> None:
    trajectory = one(read_value(MINI_CALLS["messages"]))
    assert trajectory.reader == "mini_swe_agent/2"
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool", "assistant+1"]


def test_responses_objects() -> None:
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "name": "bash", "arguments": '{"command":"ls"}', "call_id": "r1"},
    ]
    messages = [
        {"role": "system", "content": "Use bash."},
        {"role": "user", "content": "Fix it"},
        {"object": "response", "id": "resp", "output": output, "extra": {}},
        {"type": "function_call_output", "call_id": "r1", "output": "wheel.py"},
        {"role": "exit", "content": "diff"},
    ]
    trajectory = one(read_value({**MINI_CALLS, "messages": messages}))
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool"]
    assert trajectory.request["messages"][2]["reasoning_content"] == "hm"
