"""Bedrock Converse: requests with their answer, and invocation logs."""

from __future__ import annotations

import copy
import json

from tests.offline.ingest.formats.files import as_lines, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, CONVERSE, SYSTEM, TASK

WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


def test_blocks_become_messages() -> None:
    trajectory = one(read_value(CONVERSE))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"], messages[4]["content"]] == [SYSTEM, TASK, ANSWER]
    assert (messages[2]["content"], messages[3]["content"]) == ("I look.", "rusty")
    assert messages[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert trajectory.request["tools"][0]["function"]["parameters"] == {"type": "object"}


def test_structured_results() -> None:
    value = copy.deepcopy(CONVERSE)
    value["messages"][2]["content"][0]["toolResult"]["content"] = [{"json": {"rust": 3}}]
    assert json.loads(one(read_value(value)).request["messages"][3]["content"]) == {"rust": 3}


def test_an_invocation_log_is_one_run() -> None:
    body = {key: value for key, value in CONVERSE.items() if key != "output"}
    first = {**body, "messages": [{"role": "user", "content": [{"text": TASK}, {"cachePoint": {"type": "default"}}]}]}
    answers = [body["messages"][1], CONVERSE["output"]["message"]]
    lines = [
        {
            "schemaType": "ModelInvocationLog",
            "operation": "Converse",
            "timestamp": f"2026-01-01T00:00:0{number}Z",
            "input": {"inputBodyJson": sent},
            "output": {"outputBodyJson": {"output": {"message": answer}, "stopReason": "tool_use"}},
        }
        for number, (sent, answer) in enumerate(zip((first, body), answers, strict=True))
    ]
    for order in (lines, lines[::-1]):
        assert shape(one(read_bytes(as_lines(order)))) == WHOLE
