"""smolagents: code that is the call, errors, plans, and the system prompt of the first request."""

from __future__ import annotations

import json
from typing import Any

from tests.offline.ingest.formats.files import as_lines, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, SMOLAGENTS, SYSTEM, TASK

Json = dict[str, Any]
WHOLE = ["system", "user", "assistant+1", "tool", "assistant+1"]


def test_steps_as_exchanges() -> None:
    trajectory = one(read_value(SMOLAGENTS))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"]] == [SYSTEM, f"New task:\n{TASK}"]
    assert messages[2]["content"] == "Thought: I look."
    call = messages[2]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("python_interpreter", {"code": "look()"})
    assert messages[3]["content"] == "Execution logs:\nrusty"
    assert json.loads(messages[4]["tool_calls"][0]["function"]["arguments"]) == {"answer": ANSWER}


def test_lines_and_results_of_a_run_are_the_same() -> None:
    expected = one(read_value(SMOLAGENTS)).request
    assert one(read_bytes(as_lines(SMOLAGENTS))).request == expected
    assert one(read_value({"output": ANSWER, "steps": SMOLAGENTS})).request == expected


def test_errors_and_plans() -> None:
    plan = {"plan": "First the chain.", "model_input_messages": [], "model_output_message": {}, "timing": {}}
    failed = {**SMOLAGENTS[1], "observations": None, "error": {"type": "AgentError", "message": "no such tool"}}
    silent = {**failed, "tool_calls": [], "model_output": "I wonder."}
    trajectory = one(read_value([SMOLAGENTS[0], plan, failed, silent, SMOLAGENTS[2]]))
    assert shape(trajectory) == [
        *("system", "user", "assistant", "user", "assistant+1", "tool", "assistant", "user", "assistant+1"),
    ]
    assert [message["content"] for message in trajectory.request["messages"][5:8]] == [
        *("no such tool", "I wonder.", "no such tool"),
    ]
