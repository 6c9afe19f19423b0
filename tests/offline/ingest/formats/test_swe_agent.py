"""SWE-agent histories, as text and with calls, with demonstrations."""

from __future__ import annotations

import copy
import json

from tests.offline.ingest.formats.benchmark_miniatures import DA_CODE
from tests.offline.ingest.formats.files import (
    as_json,
    as_lines,
    history,
    one,
    only_problem,
    read_bytes,
    read_value,
    shape,
)
from tests.offline.ingest.formats.miniatures import SWE_AGENT_CALLS, SWE_AGENT_TEXT


def test_text_thoughts_and_commands_become_exchanges() -> None:
    trajectory = one(read_value(SWE_AGENT_TEXT))
    assert shape(trajectory) == [
        *("system", "user", "assistant+1", "tool", "assistant+1"),
        *("user", "assistant+1", "tool", "assistant+1"),
    ]
    message = trajectory.request["messages"][6]
    assert message["content"] == "Look"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"command": "cat wheel.py"}


def test_the_demonstration_is_protected_and_its_submit_is_not_answered_by_the_task() -> None:
    trajectory = one(read_value(SWE_AGENT_TEXT))
    marked = [message.get("is_demo") is True for message in trajectory.request["messages"]]
    assert marked == [False, True, True, True, True, False, False, False, False]
    taken = history(trajectory)
    assert taken.prefix_length == 6
    assert [step.complete for step in taken.steps] == [True, False]


def test_a_demonstration_in_one_message_stays_the_users() -> None:
    value = {"history": [{"role": "user", "content": "DEMO", "is_demo": True}, *SWE_AGENT_TEXT["history"][5:]]}
    trajectory = one(read_value(value))
    assert trajectory.request["messages"][0] == {"role": "user", "content": "DEMO", "is_demo": True}
    assert history(trajectory).prefix_length == 2


def test_tool_calls_and_the_instance_in_the_replay_configuration() -> None:
    trajectory = one(read_value(SWE_AGENT_CALLS))
    assert shape(trajectory) == ["system", "user", "assistant+1", "tool", "assistant"]
    assert trajectory.request["messages"][3]["tool_call_id"] == "s1"
    assert (trajectory.task, trajectory.domain) == ("bikes__wheel-12", "code")


def test_the_files_stem_names_the_task_only_where_the_file_holds_one_run() -> None:
    assert one(read_bytes(as_json(SWE_AGENT_TEXT), "wheel__wheel-1.2.traj")).task == "wheel__wheel-1.2"
    lines = read_bytes(as_lines([SWE_AGENT_TEXT] * 2), "all.jsonl")
    assert [item.task for item in lines] == [None, None]  # type: ignore[union-attr]


def test_steps_are_used_where_there_is_no_history() -> None:
    value = copy.deepcopy(SWE_AGENT_TEXT)
    del value["history"]
    value["trajectory"] = [
        {"thought": "Look", "action": "ls\n", "observation": "wheel.py", "response": "...", "state": "{}"}
    ]
    assert shape(one(read_value(value))) == ["assistant+1", "tool"]


def test_steps_whose_observation_precedes_the_action_are_not_read() -> None:
    """DA-Code: every result would belong to the command before, and task and system message would be lost."""
    problem = only_problem(read_value(DA_CODE))
    assert problem.reason == "unknown_format"
    assert "Task, system_message, trajectory" in problem.detail


def test_a_history_of_plain_messages_is_nobodys() -> None:
    value = {"history": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]}
    assert only_problem(read_value(value)).reason == "unknown_format"
