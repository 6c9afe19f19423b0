from __future__ import annotations

from typing import Any

import pytest

from drsr.errors import ManifestError
from drsr.offline.bench.harness.sandbox_suite import SandboxSuite, sandbox_task
from drsr.offline.sandbox.corpus import corpus_tasks
from drsr.offline.sandbox.recorder import run_task

Json = dict[str, Any]


def called(tool: str, arguments: str, id: str = "call_1") -> Json:
    made = {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def test_an_id_names_a_task_of_the_corpus() -> None:
    for task in corpus_tasks():
        assert sandbox_task(task.identity) == task


@pytest.mark.parametrize("identity", ["code/crash", "code/nothing/640-000", "web/crash/640-000", "code/crash/640-0x0"])
def test_other_ids_are_refused(identity: str) -> None:
    with pytest.raises(ManifestError, match="the sandbox has no task"), SandboxSuite().open(identity):
        pass


def test_it_is_the_world_in_which_the_corpus_was_recorded() -> None:
    """A recorded run, played back message by message, gets the recorded results and the recorded reward."""
    task = next(task for task in corpus_tasks() if task.family.name == "order")
    recorded = run_task(task)
    messages = recorded.request["messages"]
    with SandboxSuite().open(task.identity) as environment:
        assert environment.opening == {**recorded.request, "messages": messages[:2]}
        place = 2
        while place < len(messages):
            following = environment.follow(messages[place])
            if following is None:
                break
            assert following == messages[place + 1 : place + 1 + len(following)]
            place += 1 + len(following)
        assert place == len(messages) - 1
        assert environment.reward() == recorded.reward == 1.0


def test_nothing_done_is_no_reward() -> None:
    with SandboxSuite().open("web/order/640-000") as environment:
        assert environment.reward() == 0.0


def test_a_question_is_answered_as_often_as_it_is_asked() -> None:
    with SandboxSuite().open("web/order/640-000") as environment:
        first = environment.follow({"role": "assistant", "content": "Shall I?"})
        again = environment.follow({"role": "assistant", "content": "Sorry, shall I?"})
        assert first is not None
        assert (first, first[0]["role"]) == (again, "user")
        assert environment.follow({"role": "assistant", "content": "I stop here."}) is None


def test_whatever_a_model_calls_it_gets_an_answer() -> None:
    calls = {
        ("open", "{"): "error: the arguments are not JSON",
        ("open", '["/"]'): "error: every argument is a text",
        ("open", '{"path": 3}'): "error: every argument is a text",
        ("open", "{}"): "error: the argument 'path' is missing",
        ("open", ""): "error: the argument 'path' is missing",
        ("run", '{"command": "ls"}'): "error: there is no tool run",
        ("fly", "{}"): "error: there is no tool fly",
    }
    with SandboxSuite().open("web/order/640-000") as environment:
        for (tool, arguments), expected in calls.items():
            assert environment.follow(called(tool, arguments)) == [
                {"role": "tool", "tool_call_id": "call_1", "content": expected}
            ]
    with SandboxSuite().open("code/config_move/640-000") as environment:
        told = environment.follow(called("read", '{"path": "a\\u0000b"}'))
    assert told == [{"role": "tool", "tool_call_id": "call_1", "content": "error: ValueError"}]
