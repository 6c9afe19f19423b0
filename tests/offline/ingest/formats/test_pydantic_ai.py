"""Pydantic AI: histories as its own adapter writes them."""

from __future__ import annotations

import json

import pytest

from tests.offline.ingest.formats.files import as_lines, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, PYDANTIC_AI, SYSTEM, TASK

WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


def test_a_history_in_every_layout() -> None:
    trajectory = one(read_value(PYDANTIC_AI))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"], messages[4]["content"]] == [SYSTEM, TASK, ANSWER]
    assert (messages[2]["reasoning_content"], messages[3]["content"]) == ("hm", "rusty")
    assert one(read_bytes(as_lines(PYDANTIC_AI))).request == trajectory.request
    assert one(read_bytes(as_lines([PYDANTIC_AI]))).request == trajectory.request
    assert one(read_value({"messages": PYDANTIC_AI})).request == trajectory.request


def test_what_the_package_itself_writes() -> None:
    written = pytest.importorskip("pydantic_ai.messages")
    history = [
        written.ModelRequest(parts=[written.UserPromptPart(TASK)], instructions=SYSTEM),
        written.ModelResponse(parts=[written.ToolCallPart("look", '{"part":"chain"}', tool_call_id="c1")]),
        written.ModelRequest(parts=[written.ToolReturnPart("look", {"rust": 3}, tool_call_id="c1")]),
        written.ModelResponse(parts=[written.TextPart(ANSWER)]),
    ]
    trajectory = one(read_bytes(written.ModelMessagesTypeAdapter.dump_json(history)))
    assert shape(trajectory) == WHOLE
    assert json.loads(trajectory.request["messages"][3]["content"]) == {"rust": 3}
