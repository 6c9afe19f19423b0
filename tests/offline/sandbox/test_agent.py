from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random

import pytest

from drsr.offline.sandbox.agent import Call, Fact, Mind, Move, next_message, said
from drsr.offline.sandbox.corpus import corpus_tasks
from drsr.offline.sandbox.recorder import Agent, Task, run_task
from drsr.offline.sandbox.voice import FETCHING_AGAIN, GIVING_UP
from drsr.request.history import BlockKind, delete, read_history
from drsr.request.request import read_request
from tests.offline.sandbox.conversations import Json, agent, calls, corpus, decisions, steps

FACTS = {"code": said("look", r"code (\d+)")}
look = Move("look", lambda m: m.say(["Looking."], Call("read", {"path": "a.txt"})))
ask = Move("ask", lambda m: m.tell("Shall I?"), asks=True)
write = Move(
    "write", lambda m: m.say(["Writing {code}."], Call("write", {"path": "b.txt", "text": m["code"]})), facts=FACTS
)
answer = Move("answer", lambda m: m.tell("It is {code}."), facts=FACTS)


def _plan(dice: Random) -> list[Move]:
    return [look, ask, write, answer]


def _task() -> list[Json]:
    return [{"role": "system", "content": "s"}, {"role": "user", "content": "the task"}]


def _then(messages: list[Json], output: str | None = None, reply: str | None = None) -> list[Json]:
    """The messages with the agent's next one, and what it gets for it."""
    message = next_message(messages, _plan)
    results = [
        {"role": "tool", "tool_call_id": made["id"], "content": output} for made in message.get("tool_calls") or []
    ]
    return [*messages, message, *results, *([{"role": "user", "content": reply}] if reply else [])]


def _up_to_the_answer() -> list[Json]:
    messages = _then(_task(), output="code 42")
    messages = _then(messages, reply="Yes.")
    return _then(messages, output="wrote b.txt")


def test_an_agent_follows_its_plan() -> None:
    messages = _up_to_the_answer()
    assert [message["role"] for message in messages[2:]] == [
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert '"text": "42"' in messages[6]["tool_calls"][0]["function"]["arguments"]
    assert next_message(messages, _plan) == {"role": "assistant", "content": "It is 42."}


def test_what_is_not_visible_is_fetched_again() -> None:
    messages = _then(_task(), output="code 42")
    messages = _then(messages, reply="Yes.")
    without = [messages[0], messages[1], *messages[4:]]
    again = next_message(without, _plan)
    assert again["content"] in FETCHING_AGAIN
    assert again["tool_calls"][0]["function"] == messages[2]["tool_calls"][0]["function"]
    assert again["tool_calls"][0]["id"] != messages[2]["tool_calls"][0]["id"]
    fetched = [*without, again, {"role": "tool", "tool_call_id": again["tool_calls"][0]["id"], "content": "code 42"}]
    assert next_message(fetched, _plan)["tool_calls"] == next_message(messages, _plan)["tool_calls"]


def test_what_cannot_be_found_even_then_ends_the_work() -> None:
    messages = _then(_then(_task(), output="the file is empty"), reply="Yes.")
    assert next_message(messages, _plan)["content"] in FETCHING_AGAIN  # it may have been shortened since
    stopped = next_message(_then(messages, output="the file is empty"), _plan)
    assert stopped["content"] in GIVING_UP
    assert "tool_calls" not in stopped


def test_a_masked_output_is_fetched_again() -> None:
    messages = _then(_then(_task(), output="code 42"), reply="Yes.")
    messages[3] = {**messages[3], "content": "[left out]"}
    assert next_message(messages, _plan)["content"] in FETCHING_AGAIN
    wrote = next_message(_then(messages, output="code 42"), _plan)
    assert json.loads(wrote["tool_calls"][0]["function"]["arguments"]) == {"path": "b.txt", "text": "42"}


@pytest.mark.parametrize("fault", [IndexError, KeyError, StopIteration, TypeError, ValueError])
def test_an_output_that_can_no_longer_be_read_is_fetched_again(fault: type[Exception]) -> None:
    def find(mind: Mind) -> str | None:
        if mind.output("look") == "[...]":
            raise fault
        return mind.search(r"code (\d+)")

    def plan(dice: Random) -> list[Move]:
        return [look, ask, Move("answer", answer.make, facts={"code": Fact("look", find)})]

    messages = _then(_then(_task(), output="code 42"), reply="Yes.")
    assert next_message(messages, plan)["content"] == "It is 42."
    messages[3] = {**messages[3], "content": "[...]"}
    assert next_message(messages, plan)["content"] in FETCHING_AGAIN


def test_a_summary_that_repeats_a_call_tells_where_the_agent_stands() -> None:
    summary = 'call read: {"path": "a.txt"} gave code 42'
    messages = [*_task(), {"role": "assistant", "content": summary}]
    assert next_message(messages, _plan)["content"] == "Shall I?"
    messages = [*_task(), {"role": "assistant", "content": "Some files were read."}]
    assert next_message(messages, _plan)["tool_calls"][0]["id"] == "call_00_0"


def test_a_fact_that_stands_twice_may_be_lost_once() -> None:
    messages = _up_to_the_answer()
    copied = said("look", r"code (\d+)", r"b\.txt\n(\d+)")

    def plan(dice: Random) -> list[Move]:
        return [look, ask, write, Move("answer", answer.make, facts={"code": copied})]

    without_the_output = [*messages[:2], *messages[4:]]
    without_the_copy = messages[:6]
    assert next_message(without_the_output, plan)["content"] == "It is 42."
    assert next_message(messages, plan)["content"] == "It is 42."
    # Without both, and with the answered question still there, the agent has to look again.
    neither = [*messages[:2], *without_the_copy[4:]]
    assert next_message(neither, plan)["content"] in FETCHING_AGAIN


def test_a_fact_of_several_outputs_names_the_one_that_is_missing() -> None:
    both = Fact("one.0 one.1", lambda m: "x" if m.output("one") and m.output("one.1") else None)
    one = Move("one", lambda m: m.say(["Two calls."], Call("read", {"path": "1"}), Call("read", {"path": "2"})))

    def plan(dice: Random) -> list[Move]:
        return [one, Move("end", lambda m: m.tell("{x}"), facts={"x": both})]

    first = next_message(_task(), plan)
    results = [{"role": "tool", "tool_call_id": made["id"], "content": "text"} for made in first["tool_calls"]]
    assert next_message([*_task(), first, *results], plan)["content"] == "x"
    halved = {**first, "tool_calls": first["tool_calls"][:1]}
    assert next_message([*_task(), halved, results[0]], plan)["content"] in FETCHING_AGAIN


def test_narration_is_not_worth_a_second_look() -> None:
    """A text whose fact is gone is left out; the call does not need it."""

    def plan(dice: Random) -> list[Move]:
        return [
            look,
            ask,
            Move("go", lambda m: m.say(["Code {code}."], Call("read", {"path": "c"})), facts=FACTS),
            answer,
        ]

    messages = [*_task(), {"role": "assistant", "content": "Shall I?"}, {"role": "user", "content": "Yes."}]
    message = next_message(messages, plan)
    assert message["content"] is None
    assert message["tool_calls"][0]["id"].startswith("call_02")


def test_the_request_is_not_changed() -> None:
    for line in corpus()[:20]:
        messages = line["request"]["messages"][:-1]
        before = copy.deepcopy(messages)
        assert agent(messages) == line["request"]["messages"][-1]
        assert messages == before


def test_deleting_noise_changes_nothing() -> None:
    looked_at = 0
    for line in corpus():
        for decision in decisions(line):
            for block in decision.older_blocks:
                if decision.is_noise(block):
                    looked_at += 1
                    assert decision.next_without(block) == decision.next_output, (line["task"], block.name)
    assert looked_at > 100


def test_whatever_is_deleted_the_agent_never_acts_on_a_wrong_fact() -> None:
    """It does the same, says less, fetches again or gives up."""
    for line in corpus()[20:40]:
        for decision in decisions(line):
            for block in decision.older_blocks:
                found = decision.next_without(block)
                recovers = found["content"] in FETCHING_AGAIN or found["content"] in GIVING_UP
                same_calls = bool(calls(found)) and calls(found) == calls(decision.next_output)
                assert found == decision.next_output or recovers or same_calls, (line["task"], block.name)


def _hiding(task: Task, message: int) -> Agent:
    """The task's agent, which does not get to see the exchanges of one Step once that Step is no longer recent."""

    def act(messages: Sequence[Json]) -> Json:
        history = read_history(read_request({"messages": list(messages)}))
        hidden = [block for step in history.older if step.message == message for block in step.blocks]
        return task.agent(delete(history, hidden).request.to_wire()["messages"])

    return act


def _needed_step(line: Json) -> int:
    """The message of a Step whose exchange some later decision needs."""
    for decision in decisions(line, at_least_older=2):
        for block in decision.older_blocks:
            if block.kind is BlockKind.TOOL_EXCHANGE and decision.next_without(block) != decision.next_output:
                return decision.history.steps[block.step].message
    raise AssertionError(f"nothing is ever needed in {line['task']}")


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7, 14, 15, 18])
def test_deleted_evidence_costs_work_or_the_task(number: int) -> None:
    line, task = corpus()[number], corpus_tasks()[number]
    run = run_task(task, _hiding(task, _needed_step(line)))
    recorded = steps(line["request"]["messages"])
    assert steps(run.request["messages"]) > recorded or run.reward == 0.0


def test_deleted_evidence_can_be_fetched_again_and_the_task_succeeds() -> None:
    tasks = [(number, corpus_tasks()[number]) for number in (0, 1, 2, 3, 5, 6, 7, 9)]
    rewards = [run_task(task, _hiding(task, _needed_step(corpus()[n]))).reward for n, task in tasks]
    assert sum(rewards) >= 4


def test_an_agent_that_sees_two_steps_only_does_not_finish() -> None:
    task = corpus_tasks()[2]

    def forgetful(messages: Sequence[Json]) -> Json:
        history = read_history(read_request({"messages": list(messages)}))
        blocks = [block for step in history.older for block in step.blocks]
        return task.agent(delete(history, blocks).request.to_wire()["messages"])

    assert run_task(task, forgetful).reward == 0.0
