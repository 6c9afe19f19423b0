"""Gemini contents: calls without ids, both spellings, thoughts, and answers beside the request."""

from __future__ import annotations

import copy
from typing import Any

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, CONTENTS, GEMINI, SYSTEM, TASK

Json = dict[str, Any]


def test_a_request_with_its_tools() -> None:
    trajectory = one(read_value(GEMINI))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool", "assistant"]
    assert [messages[0]["content"], messages[1]["content"], messages[4]["content"]] == [SYSTEM, TASK, ANSWER]
    assert messages[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"part":"chain"}'}
    assert (messages[3]["content"], messages[3]["name"]) == ("rusty", "look")
    assert trajectory.request["tools"][0]["function"]["description"] == "Looks."


def test_a_list_of_contents_and_one_per_line() -> None:
    whole = ["user", "assistant+1", "tool", "assistant"]
    assert shape(one(read_value(CONTENTS))) == whole
    assert shape(one(read_bytes(as_lines(CONTENTS)))) == whole
    lists = [item for item in read_bytes(as_lines([CONTENTS, CONTENTS])) if isinstance(item, Trajectory)]
    assert [shape(item) for item in lists] == [whole, whole]


def test_results_go_to_the_call_of_their_name_in_order() -> None:
    calls = [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate(("look", "hear", "look"))]
    results = [
        {"function_response": {"name": name, "response": {"output": told}}}
        for name, told in (("hear", "loud"), ("look", "first"), ("look", "second"))
    ]
    value = [CONTENTS[0], {"role": "model", "parts": calls}, {"role": "function", "parts": results}, CONTENTS[3]]
    messages = one(read_value(value)).request["messages"]
    names = {call["id"]: call["function"]["arguments"] for call in messages[1]["tool_calls"]}
    answers = {names[message["tool_call_id"]]: message["content"] for message in messages[2:5]}
    assert answers == {'{"n":0}': "first", '{"n":1}': "loud", '{"n":2}': "second"}


def test_ids_are_used_where_there_are_some() -> None:
    value = copy.deepcopy(CONTENTS)
    value[1]["parts"] = [{"functionCall": {"id": f"i{n}", "name": "look", "args": {}}} for n in (0, 1)]
    value[2]["parts"] = [
        {"functionResponse": {"id": f"i{n}", "name": "look", "response": {"output": f"r{n}"}}} for n in (1, 0)
    ]
    messages = one(read_value(value)).request["messages"]
    assert {m["tool_call_id"]: m["content"] for m in messages[2:4]} == {"i0": "r0", "i1": "r1"}


def test_thoughts_words_and_calls_of_one_turn_are_one_message() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "I look."}]
    turn = [{"role": "model", "parts": parts}, CONTENTS[1]]
    message = one(read_value([CONTENTS[0], *turn, *CONTENTS[2:]])).request["messages"][1]
    assert (message["reasoning_content"], message["content"], len(message["tool_calls"])) == ("hm", "I look.", 1)


def test_the_answer_beside_the_request() -> None:
    value = {"contents": CONTENTS[:3], "response": {"candidates": [{"content": CONTENTS[3], "finishReason": "STOP"}]}}
    assert one(read_value(value)).request["messages"][-1]["content"] == ANSWER


def test_structured_results_are_json() -> None:
    value = copy.deepcopy(CONTENTS)
    value[2]["parts"][0]["functionResponse"]["response"] = {"part": "chain", "state": {"rust": 3}}
    assert one(read_value(value)).request["messages"][2]["content"] == '{"part":"chain","state":{"rust":3}}'


def test_a_response_that_nobody_called_for() -> None:
    problem = only_problem(read_value([CONTENTS[0], CONTENTS[2]]))
    assert (problem.reason, "'look'" in problem.detail) == ("dangling_result", True)
