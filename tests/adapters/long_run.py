"""A recorded sandbox run that every framework can tell, and what its scripted policy makes of it.

A file of the tests' own: the bundled sample may change whenever the sample corpus is recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drsr.request.protocol import violations
from drsr.request.request import Protocol, read_request
from tests.conversations import Conversation, Exchange, Turn

BODY: dict[str, Any] = json.loads(Path(__file__).with_name("long_request.json").read_text())
TOOLS: list[dict[str, Any]] = BODY["tools"]


def sample_run() -> Conversation:
    """A task, eight Steps, nine exchanges."""
    system, task, *rest = BODY["messages"]
    answers = {message["tool_call_id"]: message["content"] for message in rest if message["role"] == "tool"}
    turns = [
        Turn(
            reasoning="",
            text=message["content"] or "",
            exchanges=tuple(
                Exchange(
                    call["id"],
                    call["function"]["name"],
                    json.loads(call["function"]["arguments"]),
                    answers[call["id"]],
                )
                for call in message["tool_calls"]
            ),
            user="",
        )
        for message in rest
        if message["role"] == "assistant"
    ]
    return Conversation(system["content"], task["content"], tuple(turns))


RUN = sample_run()


def anthropic_tools() -> list[dict[str, Any]]:
    """The sample's tools as Anthropic describes them."""
    functions = [tool["function"] for tool in TOOLS]
    return [{"name": function["name"], "input_schema": function["parameters"]} for function in functions]


def check_sent(before: list[Any], sent: list[Any], protocol: Protocol = "openai") -> None:
    """What was sent is a shorter, valid version of what was there, and its end is the same."""
    assert sent != before
    assert len(json.dumps(sent)) < len(json.dumps(before))
    assert violations(read_request({"messages": sent}, protocol=protocol)) == []
    assert sent[:2] == before[:2]
    assert sent[-2:] == before[-2:]
