"""ShareGPT: calls and observations as turns of their own, and assistants that act in plain text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.offline.ingest.formats.files import one, only_problem, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, CHAT, SHAREGPT, SYSTEM, TASK

Json = dict[str, Any]
WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


def turns(*said: tuple[str, str]) -> Json:
    return {"conversations": [{"from": speaker, "value": value} for speaker, value in said]}


def test_calls_observations_system_and_tools() -> None:
    trajectory = one(read_value(SHAREGPT))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"], messages[-1]["content"]] == [SYSTEM, TASK, ANSWER]
    assert messages[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert messages[3]["content"] == "rusty"
    assert trajectory.request["tools"][0]["function"]["name"] == "look"
    assert trajectory.external_id == "runs.json#bike-1"


def test_what_is_said_before_a_call_belongs_to_it() -> None:
    value = turns(("human", "go"), ("gpt", "I look."), ("function_call", '{"name": "look", "arguments": {}}'))
    value["conversations"] += turns(("observation", "rusty"), ("gpt", "Well."), ("human", "More?"))["conversations"]
    trajectory = one(read_value(value))
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant", "user"]
    assert trajectory.request["messages"][1]["content"] == "I look."


def test_several_calls_at_once_and_a_list_of_their_results() -> None:
    calls = json.dumps([{"name": "look", "arguments": {"part": part}} for part in ("chain", "bell")])
    value = turns(("human", "go"), ("function_call", calls), ("observation", '["rusty", "loud"]'), ("gpt", "Oil it."))
    trajectory = one(read_value(value))
    assert shape(trajectory) == ["user", "assistant+2", "tool", "tool", "assistant"]
    assert [message["content"] for message in trajectory.request["messages"][2:4]] == ["rusty", "loud"]


def test_calls_in_tags_and_tools_as_speakers() -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {"part": "chain"}}\n</tool_call>'
    value = turns(("human", "go"), ("gpt", call), ("tool", "<tool_response>\nrusty\n</tool_response>"), ("gpt", "Oil."))
    assert shape(one(read_value(value))) == ["user", "assistant+1", "tool", "assistant"]


def test_roles_and_contents_under_the_other_names() -> None:
    value = {"conversations": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]}
    assert shape(one(read_value(value))) == ["user", "assistant"]


@pytest.mark.parametrize("column", ["conversations", "conversation", "trajectory"])
def test_chat_messages_in_columns_of_training_sets(column: str) -> None:
    trajectory = one(read_value({column: CHAT, "instance_id": "bikes-1", "resolved": True}))
    assert trajectory.request["messages"] == CHAT
    assert (trajectory.task, trajectory.reward) == ("bikes-1", 1.0)


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (turns(("human", "go"), ("gpt", "ok"), ("tool", "rusty")), "dangling_result", "no turn before it"),
        (turns(("human", "go"), ("gpt", "ok"), ("human", "x"), ("narrator", "?")), "malformed", "narrator"),
        (turns(("human", "go"), ("function_call", "look(chain)")), "malformed", "a call as JSON"),
        (turns(("human", "go"), ("observation", "x"), ("function_call", "{}")), "dangling_result", "no message before"),
    ],
)
def test_what_cannot_be_read_is_told(value: Json, reason: str, detail: str) -> None:
    problem = only_problem(read_value(value))
    assert problem.reason == reason
    assert detail in problem.detail
