"""Simulations with flat calls, and users who call tools."""

from __future__ import annotations

import copy
import json

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import one, only_problem, read_value, shape
from tests.offline.ingest.formats.miniatures import TAU2, TAU2_SOLO


def test_the_users_own_tools_are_no_part_of_the_history() -> None:
    trajectory = one(read_value(TAU2))
    assert shape(trajectory) == ["system", "assistant", "user", "assistant+2", "tool", "tool", "assistant"]
    assert "switch_on" not in json.dumps(trajectory.request)


def test_policy_calls_and_identity() -> None:
    trajectory = one(read_value(TAU2))
    messages = trajectory.request["messages"]
    assert messages[0] == {"role": "system", "content": "Be kind."}
    assert messages[3]["reasoning_content"] == "Two things to check."
    assert messages[3]["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"user":"Ann"}'}
    assert (trajectory.external_id, trajectory.task) == ("5b0f3f4e-sim", "tau2/bikes/3")
    assert (trajectory.domain, trajectory.reward) == ("bikes", 1.0)


def test_one_bad_simulation_does_not_spoil_the_others() -> None:
    value = copy.deepcopy(TAU2)
    value["simulations"].insert(0, {"id": "bad", "messages": [{"role": "tool", "id": "nobody", "content": "x"}]})
    items = read_value(value)
    assert only_problem(items[:1]).reason == "dangling_result"
    assert "simulations[0]" in only_problem(items[:1]).location
    assert one(items[1:]).external_id == "5b0f3f4e-sim"


def test_the_ticket_is_the_task_of_an_agent_that_works_alone() -> None:
    items = [item for item in read_value(TAU2_SOLO) if isinstance(item, Trajectory)]
    assert [item.reader for item in items] == ["tau2_solo/1"] * 2
    assert shape(items[0]) == ["system", "user", "assistant+2", "tool", "tool", "assistant"]
    assert items[0].request["messages"][1]["content"].startswith("The customer's bike")
    assert items[0].task == items[1].task  # equal texts under different ids
    assert items[0].task is not None
    assert items[0].task.startswith("tau2/bikes/ticket-")


def test_a_ticket_beside_a_user_is_left_to_the_user() -> None:
    value = copy.deepcopy(TAU2) | {"tasks": [{"id": "3", "ticket": "The phone is off."}]}
    trajectory = one(read_value(value))
    assert (trajectory.reader, trajectory.task) == ("tau2_bench/1", "tau2/bikes/3")
    assert trajectory.content_hash == one(read_value(TAU2)).content_hash
