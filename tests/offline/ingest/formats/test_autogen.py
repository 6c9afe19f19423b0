"""AutoGen: events of 0.4, agents' saved states, and histories of 0.2 whose roles are another's."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import (
    as_json,
    as_lines,
    one,
    only_problem,
    read_bytes,
    read_value,
    shape,
    text_call,
)
from tests.offline.ingest.formats.team_miniatures import AG2, ANSWER, AUTOGEN_04, TASK

Json = dict[str, Any]
WHOLE = ["user", "assistant+1", "tool", "user", "assistant"]


@pytest.mark.parametrize("data", [as_json(AUTOGEN_04), as_lines(AUTOGEN_04), as_json({"messages": AUTOGEN_04})])
def test_events_without_the_summary_that_no_model_saw(data: bytes) -> None:
    trajectory = one(read_bytes(data))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert messages[1]["tool_calls"] == [text_call("look", {"part": "chain"}, "c1")]
    assert (messages[2]["content"], messages[4]["content"]) == ("rusty", ANSWER)


def test_a_thought_is_said_with_its_call() -> None:
    thought = {"source": "mechanic", "content": "I look.", "type": "ThoughtEvent"}
    trajectory = one(read_value([AUTOGEN_04[0], thought, *AUTOGEN_04[1:]]))
    assert trajectory.request["messages"][1]["content"] == "I look."


def test_the_saved_state_of_an_agent() -> None:
    context = [
        {"content": TASK, "source": "user", "type": "UserMessage"},
        {**AUTOGEN_04[1], "thought": "hm", "type": "AssistantMessage"},
        {"content": AUTOGEN_04[2]["content"], "type": "FunctionExecutionResultMessage"},
        {"content": ANSWER, "source": "mechanic", "type": "AssistantMessage"},
    ]
    trajectory = one(read_value({"type": "AssistantAgentState", "llm_context": {"messages": context}}))
    assert shape(trajectory) == ["user", "assistant+1", "tool", "assistant"]
    assert trajectory.request["messages"][1]["content"] == "hm"


def test_several_agents_are_no_single_history() -> None:
    other = {"source": "critic", "content": "Better.", "type": "TextMessage"}
    problem = only_problem(read_value([*AUTOGEN_04, other]))
    assert problem.reason == "several_agents"
    assert "save_state" in problem.detail


def test_roles_of_the_initiator_are_turned() -> None:
    trajectory = one(read_value(AG2))
    assert shape(trajectory) == ["user", "assistant+2", "tool", "tool", "assistant"]
    messages = trajectory.request["messages"]
    assert messages[0]["content"] == TASK
    assert {m["tool_call_id"]: m["content"] for m in messages[2:4]} == {"c1": "rusty", "c2": "loud"}
    assert messages[4]["content"] == ANSWER


def test_roles_turn_without_any_call_too() -> None:
    said = [AG2[0], AG2[3], {"content": "More?", "role": "assistant", "name": "user_proxy"}, AG2[3]]
    assert shape(one(read_value({"chat_history": said, "cost": {}}))) == ["user", "assistant", "user", "assistant"]


def test_the_agents_own_history_keeps_its_roles() -> None:
    own = [{**AG2[0], "role": "user"}, *AG2[1:3], {**AG2[3], "role": "assistant"}]
    assert one(read_value(own)).request == one(read_value(AG2)).request


def test_a_group_chat_is_refused() -> None:
    third = {"content": "Better.", "role": "user", "name": "critic"}
    problem = only_problem(read_value([*AG2, third]))
    assert (problem.reason, "critic" in problem.detail) == ("several_agents", True)


def test_turned_roles_without_names_are_refused() -> None:
    said = [("assistant", TASK), ("user", "```sh\nls\n```"), ("assistant", "exitcode: 0\nrusty"), ("user", ANSWER)]
    nameless = [{"role": role, "content": content} for role, content in said]
    problem = only_problem(read_value(nameless))
    assert (problem.reason, "`name`" in problem.detail) == ("malformed", True)
    greeted = one(read_value([*nameless[:2], {"role": "assistant", "content": "fine"}]))
    assert greeted.reader.startswith("openai_chat/")


def test_a_chat_with_names_whose_assistant_answers_stays_a_chat() -> None:
    chat = [{"role": "user", "name": "ann", "content": "go"}, {"role": "assistant", "name": "bot", "content": "done"}]
    (item,) = read_value(chat)
    assert isinstance(item, Trajectory)
    assert item.reader.startswith("openai_chat/")
