"""What frameworks say in the assistant's place, in every form in which runs are read."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.freeze.states import freeze_trajectory
from drsr.offline.ingest.formats.synthetic_outputs import is_synthetic
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.view import Caps
from tests.offline.ingest.formats.files import decisions, one, read_value, text_call
from tests.offline.ingest.formats.miniatures import CHAT, SWE_AGENT_TEXT

GAVE_UP = "Exit due to cost limit"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GAVE_UP, True),
        ("  Exit due to context window\n", True),
        ("Agent stopped due to max iterations.", True),
        ("Exit due to cost limit\nThen I looked again.", False),
        ("I stopped: Exit due to cost limit", False),
        ("Exit due to " + "x" * 300, False),
        ("", False),
        (None, False),
    ],
)
def test_known_outputs(text: Any, expected: bool) -> None:
    assert is_synthetic(text) is expected


def test_in_a_chat_in_anthropics_form_and_in_a_swe_agent_run() -> None:
    trajectory = one(read_value([*CHAT, {"role": "assistant", "content": GAVE_UP}]))
    assert decisions(trajectory) == [2, 4]
    assert trajectory.request["messages"][-1]["content"] == GAVE_UP
    blocks = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [{"type": "text", "text": GAVE_UP}]}]
    assert decisions(one(read_value({"system": "x", "messages": blocks}))) == []
    last = {"role": "assistant", "content": GAVE_UP, "thought": GAVE_UP, "action": "exit_cost"}
    run = {**SWE_AGENT_TEXT, "history": [*SWE_AGENT_TEXT["history"][:-1], last]}
    assert len(decisions(one(read_value(run)))) == len(decisions(one(read_value(SWE_AGENT_TEXT)))) - 1


ENDED: dict[str, Any] = {"role": "assistant", "content": "No money", "thought": "No money", "action": "exit_money"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [6]),
        ({"content": "No money\n```\nexit_money\n```"}, [6, 8]),  # a model gave up
        ({"content": "exit_money", "thought": "exit_money"}, [6, 8]),  # all of it is the action
        ({"content": '{"command": "exit_money"}'}, [6, 8]),
        ({"action": ""}, [6, 8]),  # words alone: only a repeated sentence gives it away
    ],
)
def test_the_action_that_ends_a_swe_agent_run_is_part_of_what_a_model_said(
    changed: dict[str, Any], expected: list[int]
) -> None:
    history = [*SWE_AGENT_TEXT["history"][:-1], {**ENDED, **changed}]
    observed = {"role": "user", "content": "spokes = 0"}
    model = {"role": "assistant", "content": "No money", "thought": "No money", "action": "exit_money"}
    assert decisions(one(read_value({**SWE_AGENT_TEXT, "history": history}))) == [*demonstrated(), *expected]
    # With an observation behind it, it was carried out, whoever said it.
    assert decisions(one(read_value({**SWE_AGENT_TEXT, "history": [*history[:-1], model, observed]})))[-1] == 8


def test_the_same_in_a_list_of_steps() -> None:
    step = {"action": "ls", "observation": "a", "response": "I look\nls", "thought": "I look", "state": "{}"}
    ended = {"action": "exit_money", "observation": "", "response": "No money", "thought": "No money", "state": "{}"}
    run = one(read_value({"environment": "main", "trajectory": [step, ended], "info": {}}))
    assert decisions(run) == [0]


def demonstrated() -> list[int]:
    """The places of the demonstration's messages, which are no decisions of this run but are marked otherwise."""
    return [at for at in decisions(one(read_value(SWE_AGENT_TEXT))) if at < 6]


def test_no_state_is_frozen_at_what_is_no_decision() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "count the files"}]
    for number in range(9):
        call = text_call("ls", {"n": number}, f"c{number}")
        messages.append({"role": "assistant", "content": f"step {number}", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"file {number} " * (number + 1)})
    messages.append({"role": "assistant", "content": "Nine."})

    def frozen(marked: set[int]) -> Any:
        said = [{**m, "is_decision": False} if at in marked else m for at, m in enumerate(messages)]
        run = Trajectory("run", "openai", {"messages": said}, "test/1")
        return freeze_trajectory(run, ScriptedTokenizer(), Caps(10_000, 1_000))

    every = frozen(set())
    last = len(messages) - 1
    assert [state.decision for state in every.states][-1] == last
    fewer = frozen({last})
    assert (fewer.eligible, last in [state.decision for state in fewer.states]) == (every.eligible - 1, False)
    none = frozen(set(range(1, len(messages))))
    assert (none.eligible, none.states, "no assistant message" in none.why_none) == (0, (), True)
