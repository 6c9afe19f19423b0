"""AgentDojo, InterCode and AutoPenBench: every call with its own result, tasks named, oddities as recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from tests.offline.ingest.formats.files import as_json, read_bytes
from tests.offline.ingest.formats.miniatures import AGENTDOJO, AUTOPENBENCH, INTERCODE


def runs(value: Any, name: str = "run.json") -> list[Trajectory]:
    found = list(read_bytes(as_json(value), name))
    assert not [item for item in found if isinstance(item, Quarantined)]
    return [item for item in found if isinstance(item, Trajectory)]


def exchanges(run: Trajectory) -> list[tuple[str, Any, str]]:
    """Name, arguments and result of every call."""
    messages = run.request["messages"]
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]), results[call["id"]]) for call in calls
    ]


def test_agentdojo_pairs_calls_without_ids_by_order_and_takes_errors_for_results() -> None:
    (run,) = runs(AGENTDOJO)
    assert exchanges(run) == [
        ("find_day", {"name": "fair"}, "May 4"),
        ("find_place", {"name": "fair"}, "ValueError: no such place"),
    ]
    assert (run.task, run.domain, run.reward) == ("agentdojo/office/user_task_3", "office and data", 1.0)
    roles = [message["role"] for message in run.request["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


def test_intercode_answers_action_i_by_observation_i() -> None:
    bash, sql = runs(INTERCODE)
    assert exchanges(bash) == [("bash", {"command": "ls"}, "a.txt"), ("bash", {"command": "wc -l a.txt"}, "3 a.txt")]
    assert exchanges(sql) == [("sql", {"query": "SELECT 1"}, "[(1,)]")]
    assert [run.task for run in (bash, sql)] == ["intercode/bash/fs2/4", "intercode/sql/5"]
    assert bash.external_id.endswith("#4")


@pytest.mark.parametrize("history", [{"actions": ["a"], "observations": []}, {"actions": "a", "observations": ["b"]}])
def test_intercode_refuses_what_cannot_be_paired(history: dict[str, Any]) -> None:
    found = list(read_bytes(as_json({"4": INTERCODE["4"] | {"turn_history": history}}), "run.json"))
    assert [item.reason for item in found if isinstance(item, Quarantined)] == ["malformed"]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("auto_in-vitro_cryptography_vm1.json", "autopenbench/in-vitro_cryptography_vm1"),
        ("reliability_in-vitro_access_control_vm2_7.json", "autopenbench/in-vitro_access_control_vm2"),
        ("gpt-4o_run3.json", None),
    ],
)
def test_autopenbench_takes_its_task_from_the_name_and_the_text_from_step_one(name: str, task: str | None) -> None:
    (run,) = runs(AUTOPENBENCH, name)
    assert run.task == task
    assert run.request["messages"][0] == {"role": "user", "content": "Find the door."}
    assert exchanges(run) == [
        ("ExecuteBash", {"input": "machine='a' cmd='ls'"}, "door.txt"),
        ("FinalAnswer", {"input": "flag='x'"}, "right"),
    ]
