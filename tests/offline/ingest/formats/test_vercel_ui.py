"""Messages of the Vercel AI SDK's user interface: versions 4 and 5, steps, states of calls."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, VERCEL_V4, VERCEL_V5

Json = dict[str, Any]
WHOLE = ["user", "assistant+1", "tool", "assistant"]


@pytest.mark.parametrize("messages", [VERCEL_V4, VERCEL_V5])
def test_the_calls_of_a_message_become_steps(messages: list[Json]) -> None:
    trajectory = one(read_value(messages))
    said = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert said[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert (said[2]["content"], said[3]["content"]) == ("rusty", ANSWER)
    assert said[1].get("reasoning_content") == ("hm" if messages is VERCEL_V5 else None)


def test_message_lines_chats_per_line_and_chats_as_lists() -> None:
    assert shape(one(read_bytes(as_lines(VERCEL_V5)))) == WHOLE
    assert shape(one(read_bytes(as_lines(VERCEL_V4)))) == WHOLE
    chats = read_bytes(as_lines([{"id": "a", "messages": VERCEL_V4}, {"id": "b", "messages": VERCEL_V5}]))
    assert [item.external_id for item in chats if isinstance(item, Trajectory)] == ["runs.json#a", "runs.json#b"]
    assert len(read_value([VERCEL_V4, VERCEL_V5])) == 2


def test_parts_of_version_4_with_steps() -> None:
    calls: list[Json] = [
        {"state": "result", "step": step, "toolCallId": f"c{step}", "toolName": "look", "args": {}, "result": step}
        for step in (0, 1)
    ]
    parts = [
        {"type": "step-start"},
        {"type": "text", "text": "First."},
        *({"type": "tool-invocation", "toolInvocation": call} for call in calls),
        {"type": "text", "text": ANSWER},
    ]
    message = {"id": "a", "role": "assistant", "content": f"First.{ANSWER}", "toolInvocations": calls, "parts": parts}
    trajectory = one(read_value([VERCEL_V4[0], message]))
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant+1", "tool", "assistant"]
    assert trajectory.request["messages"][1]["content"] == "First."
    assert [message["content"] for message in trajectory.request["messages"] if message["role"] == "tool"] == ["0", "1"]


def test_invocations_without_parts_by_their_step() -> None:
    message = copy.deepcopy(VERCEL_V4[1])
    message["toolInvocations"] += [{**message["toolInvocations"][0], "step": 1, "toolCallId": "c2"}]
    assert shape(one(read_value([VERCEL_V4[0], message]))) == [*WHOLE[:3], *WHOLE[1:]]


def test_dynamic_tools_errors_and_calls_without_a_result() -> None:
    parts: list[Json] = [
        {"type": "dynamic-tool", "toolName": "look", "toolCallId": "a", "state": "output-error", "errorText": "no"},
        {"type": "tool-hear", "toolCallId": "b", "state": "input-available", "input": {"part": "bell"}},
        {"type": "data-weather", "data": {"shown": "to people only"}},
    ]
    trajectory = one(read_value([VERCEL_V5[0], {"id": "a", "role": "assistant", "parts": parts}]))
    assert shape(trajectory) == ["user", "assistant+2", "tool"]
    assert trajectory.request["messages"][2]["content"] == "no"


def test_structured_results_and_words_behind_a_call() -> None:
    part = {**VERCEL_V5[1]["parts"][2], "output": {"rust": 3}}
    message = {"id": "a", "role": "assistant", "parts": [part, {"type": "text", "text": ANSWER}]}
    trajectory = one(read_value([VERCEL_V5[0], message]))
    assert shape(trajectory) == WHOLE
    assert json.loads(trajectory.request["messages"][2]["content"]) == {"rust": 3}
