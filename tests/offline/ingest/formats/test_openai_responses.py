"""Stored responses: chains by `previous_response_id`, and what is missing from them."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, RESPONSES, SYSTEM, TASK

Json = dict[str, Any]
WHOLE = ["system", "user", "assistant+1", "tool", "assistant"]


@pytest.mark.parametrize("values", [RESPONSES, RESPONSES[::-1]])
def test_a_chain_is_one_run_whatever_the_order(values: list[Json]) -> None:
    trajectory = one(read_bytes(as_lines(values)))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"], messages[4]["content"]] == [SYSTEM, TASK, ANSWER]
    assert messages[3] == {"role": "tool", "tool_call_id": "c1", "content": "rusty"}
    assert trajectory.request["tools"] == [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    ]
    assert trajectory.external_id == "resp_1"


def test_one_response_with_the_whole_input() -> None:
    whole = {**RESPONSES[1], "previous_response_id": None, "input": [*RESPONSES[0]["input"], *RESPONSES[0]["output"]]}
    whole["input"] = [*whole["input"], *RESPONSES[1]["input"]]
    assert shape(one(read_value(whole))) == WHOLE
    bare = {key: value for key, value in RESPONSES[1].items() if key not in ("input", "previous_response_id")}
    assert shape(one(read_value({"input": TASK, "response": bare}))) == ["system", "user", "assistant"]


def test_two_responses_to_the_same_one_are_two_runs() -> None:
    other = {**RESPONSES[1], "id": "resp_3"}
    items = read_bytes(as_lines([*RESPONSES, other]))
    assert [shape(item) for item in items if isinstance(item, Trajectory)] == [WHOLE, WHOLE]
    assert len({item.external_id for item in items if isinstance(item, Trajectory)}) == 2


@pytest.mark.parametrize(
    ("values", "reason", "detail"),
    [
        (RESPONSES[1:], "incomplete", "resp_1"),
        ([{**RESPONSES[0], "input": None}], "incomplete", "input_items"),
        ([RESPONSES[0], {**RESPONSES[1], "instructions": "Be rude."}], "malformed", "instructions change"),
    ],
)
def test_what_is_missing_is_told(values: list[Json], reason: str, detail: str) -> None:
    problem = only_problem(read_bytes(as_lines(values)))
    assert problem.reason == reason
    assert detail in problem.detail


def test_a_ring_of_responses_ends() -> None:
    ring = [{**RESPONSES[0], "previous_response_id": "resp_2"}, RESPONSES[1]]
    assert [item for item in read_bytes(as_lines(ring)) if isinstance(item, Trajectory)] == []
