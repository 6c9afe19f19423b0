"""Codex rollouts and bare Responses items."""

from __future__ import annotations

import json
from typing import Any

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import CODEX


def lines(values: list[Any]) -> list[Trajectory]:
    return [item for item in read_bytes(as_lines(values)) if isinstance(item, Trajectory)]


def test_reasoning_message_and_calls_are_one_turn() -> None:
    trajectory = one(read_bytes(as_lines(CODEX)))
    assert shape(trajectory) == ["system", "user", "user", "assistant+2", "tool", "tool", "assistant"]
    messages = trajectory.request["messages"]
    assert messages[0]["content"] == "You are Codex."
    assert (messages[3]["content"], messages[3]["reasoning_content"]) == ("I look.", "Look first.")
    assert json.loads(messages[3]["tool_calls"][1]["function"]["arguments"]) == {"input": "*** Begin"}
    assert (trajectory.external_id, trajectory.task) == ("0199-codex", "0199-codex")


def test_bare_items_and_older_rollouts() -> None:
    items = [line["payload"] for line in CODEX if line["type"] == "response_item"]
    assert shape(one(read_value(items))) == ["user", "user", "assistant+2", "tool", "tool", "assistant"]
    header = {"id": "old", "timestamp": "t", "instructions": "Be brief."}
    (trajectory,) = lines([header, {"record_type": "state"}, *items])
    assert trajectory.external_id == "old"
    assert trajectory.request["messages"][0] == {"role": "system", "content": "Be brief."}


def test_outputs_as_parts_and_as_objects() -> None:
    parts = [{"type": "input_text", "text": "wheel.py"}]
    for output in (parts, {"content": "wheel.py", "success": True}):
        changed = [json.loads(json.dumps(line)) for line in CODEX]
        changed[9]["payload"]["output"] = output
        assert one(read_bytes(as_lines(changed))).request["messages"][4]["content"] == "wheel.py"


def test_a_local_shell_call() -> None:
    action = {"type": "exec", "command": ["ls"]}
    call = {"type": "local_shell_call", "call_id": "z", "status": "completed", "action": action}
    output = {"type": "local_shell_call_output", "call_id": "z", "output": "wheel.py"}
    made = one(read_value([CODEX[2]["payload"], call, output])).request["messages"][1]
    assert made["tool_calls"][0]["function"]["name"] == "local_shell"


def test_a_compaction_starts_a_new_stretch() -> None:
    kept = [
        CODEX[2]["payload"],
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sum"}]},
    ]
    compacted = {"type": "compacted", "payload": {"message": "Sum", "replacement_history": kept}}
    late = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "f1", "output": "again"}}
    first, second = lines([*CODEX, compacted, late, CODEX[-1]])
    assert shape(second) == ["system", "user", "user", "assistant"]
    assert (first.external_id, second.external_id) == ("0199-codex", "0199-codex/2")
    assert first.task == second.task
    older = {"type": "compacted", "payload": {"message": "Sum"}}
    assert shape(lines([*CODEX, older, CODEX[-1]])[1]) == ["system", "user", "user", "user", "assistant"]


def test_a_session_that_ends_with_a_compaction() -> None:
    compacted = {"type": "compacted", "payload": {"message": "Sum", "replacement_history": []}}
    assert len(lines([*CODEX, compacted])) == 1


def test_a_rollback_takes_turns_away() -> None:
    second = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Again"}]}
    rollback = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    values = [*CODEX, {"type": "response_item", "payload": second}, CODEX[-1], rollback]
    assert shape(lines(values)[0]) == shape(lines(CODEX)[0])


def test_a_dangling_output() -> None:
    values = [CODEX[0], CODEX[2], CODEX[9], CODEX[-1]]
    assert only_problem(read_bytes(as_lines(values))).reason == "dangling_result"
