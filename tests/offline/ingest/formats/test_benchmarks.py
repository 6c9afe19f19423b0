"""AgentDojo, InterCode and AutoPenBench: calls with their results, the task, and what names them."""

from __future__ import annotations

import json
from typing import Any

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.benchmark_miniatures import AGENTDOJO, AUTOPENBENCH, INTERCODE
from tests.offline.ingest.formats.files import as_json, one, only_problem, read_bytes, read_value, shape


def exchanges(trajectory: Trajectory) -> list[tuple[str, Any, str]]:
    """Every call with its result: by id, which readers give where there is none."""
    messages = trajectory.request["messages"]
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]), results[call["id"]]) for call in calls
    ]


def test_agentdojo_pairs_calls_without_ids_by_order_and_shows_errors() -> None:
    trajectory = one(read_value(AGENTDOJO))
    assert shape(trajectory) == ["user", "assistant+2", "tool", "tool", "assistant"]
    (_, _, first), (_, asked, second) = exchanges(trajectory)
    assert first == "front: 3 bar"
    assert (asked, second) == ({"wheel": "rear", "bar": 4}, "no such valve")
    assert (trajectory.task, trajectory.reward) == ("agentdojo/garage/user_task_4", 1.0)


def test_intercode_answers_every_action() -> None:
    trajectory = one(read_value(INTERCODE))
    assert exchanges(trajectory) == [
        ("sql", {"query": "SHOW TABLES"}, "bikes"),
        ("sql", {"query": "SELECT COUNT(*) FROM bikes"}, "12"),
    ]
    assert (trajectory.task, trajectory.reward) == ("intercode/sql/17", 1.0)
    history = {"actions": ["SHOW TABLES"], "observations": []}
    problem = only_problem(read_value({"0": {**INTERCODE["0"], "turn_history": history}}))
    assert (problem.reason, problem.detail) == ("malformed", "1 actions and 0 observations")


def test_autopenbench_takes_the_task_from_the_files_name() -> None:
    trajectory = one(read_bytes(as_json(AUTOPENBENCH), "reliability_in-vitro_shed_vm3_5.json"))
    assert trajectory.request["messages"][0] == {"role": "user", "content": "Open the shed."}
    assert exchanges(trajectory) == [("ExecuteBash", {"input": "machine='shed' cmd='knock'"}, "nobody")]
    assert trajectory.task == "autopenbench/in-vitro_shed_vm3"
    assert one(read_bytes(as_json(AUTOPENBENCH), "gpt-4o_run1.json")).task is None
