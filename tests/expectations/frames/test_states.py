"""Where Recent2 begins, against taking every request apart on its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.expectations.frames.states import complete_steps, decisions, first_recent_steps
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.history import read_history
from drsr.request.request import Protocol, read_request
from tests.strategies import PROTOCOLS, aborted_requests, valid_requests


def run_of(body: Any, protocol: Protocol) -> Trajectory:
    return Trajectory("run", protocol, body, "test/1")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_the_slow_twin(protocol: Protocol, data: st.DataObject) -> None:
    """The request before each decision, its history read anew: the first of its latest two complete Steps."""
    body = data.draw(st.one_of(valid_requests(protocol, max_steps=10), aborted_requests(protocol)))
    request = read_request(body, protocol=protocol)
    decisions = [step.message for step in read_history(request).steps]
    slow = {}
    for decision in decisions:
        recent = read_history(request.with_messages(request.messages[:decision])).recent
        slow[decision] = recent[0].index if len(recent) == 2 else -1
    assert first_recent_steps(complete_steps(run_of(body, protocol)), decisions) == slow


def test_a_step_without_its_result_does_not_count() -> None:
    def call(name: str) -> dict[str, Any]:
        return {"id": name, "type": "function", "function": {"name": "ls", "arguments": "{}"}}

    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for name in "abc":
        messages.append({"role": "assistant", "content": name, "tool_calls": [call(name)]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "done"})
    messages += [{"role": "assistant", "content": "aborted", "tool_calls": [call("d")]}]
    messages += [{"role": "user", "content": "on"}, {"role": "assistant", "content": "fine"}]
    # Before the last message: Steps 0, 1, 2 are complete, Step 3 is not; Recent2 is 1 and 2.
    assert first_recent_steps(complete_steps(run_of({"messages": messages}, "openai")), [9, 5, 3]) == {
        9: 1,
        5: 0,
        3: -1,
    }


def test_a_later_message_that_cannot_be_read_changes_nothing_before_it() -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for number in range(4):
        messages.append({"role": "assistant", "content": f"step {number}"})
        messages.append({"role": "user", "content": "on"})
    sound = first_recent_steps(complete_steps(run_of({"messages": messages}, "openai")), [5, 7])
    assert sound == {5: 0, 7: 1}
    messages.append({"role": "narrator", "content": "?"})
    assert first_recent_steps(complete_steps(run_of({"messages": messages}, "openai")), [5, 7]) == sound


def test_what_a_model_did_not_say_there_is_no_decision() -> None:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "preserved by a compaction", "is_decision": False},
        {"role": "assistant", "content": "said"},
    ]
    assert decisions(run_of({"messages": messages}, "openai")) == [2]
