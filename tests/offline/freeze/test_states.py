"""Counting eligible decisions against freezing every one of them, and the choice of the states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState, freeze
from drsr.errors import AlignmentError, RequestError
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.freeze.states import (
    chosen_ordinals,
    eligible_decisions,
    freeze_trajectory,
    rule_hash,
)
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.contracts import TokenIds
from drsr.request.history import read_history
from drsr.request.json_values import MAX_REQUEST_CHARACTERS
from drsr.request.rendering import render, render_output
from drsr.request.request import Protocol, Request, read_request
from drsr.request.view import Caps
from tests.strategies import PROTOCOLS, arbitrary_requests, valid_requests

TOKENIZER = ScriptedTokenizer()
CAPS = Caps(10_000, 1_000)


def frozen_one_by_one(request: Request, context_cap: int) -> list[int]:
    """The slow obvious twin: freeze the request before every assistant message behind the prefix."""
    eligible = []
    for step in read_history(request).steps:
        before = request.with_messages(request.messages[: step.message])
        if isinstance(freeze(before, TOKENIZER, context_cap), DecisionState):
            eligible.append(step.message)
    return eligible


def run_of(steps: int, **changes: Any) -> Trajectory:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "count the files"}]
    for number in range(steps):
        call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": f'{{"n": {number}}}'}}
        messages.append({"role": "assistant", "content": f"step {number}", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "c", "content": f"file {number} " * (number + 1)})
    return Trajectory("run", "openai", {"messages": messages}, "test/1", **changes)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data(), cap=st.sampled_from([40, 80, 160, 10_000]))
def test_counting_agrees_with_freezing_each(protocol: Protocol, data: st.DataObject, cap: int) -> None:
    bodies = st.one_of(valid_requests(protocol, max_steps=14), arbitrary_requests(protocol))
    request = read_request(data.draw(bodies), protocol=protocol)
    counted = eligible_decisions(read_history(request), render(request, TOKENIZER), len(TOKENIZER.lead), cap)
    assert counted == frozen_one_by_one(request, cap)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(data=st.data())
def test_the_rendering_before_a_message_is_that_of_the_cut_request(protocol: Protocol, data: st.DataObject) -> None:
    request = read_request(data.draw(valid_requests(protocol)), protocol=protocol)
    whole = render(request, TOKENIZER)
    for index in range(len(request.messages)):
        cut = render(request.with_messages(request.messages[:index]), TOKENIZER)
        before = whole.before(index)
        assert before.token_ids.tolist() == cut.token_ids.tolist()
        assert before.message_spans == cut.message_spans
        assert before.part_spans == cut.part_spans


@pytest.mark.parametrize(
    ("eligible", "ordinals"),
    [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [1, 2, 3]), (9, [2, 5, 8]), (10, [3, 6, 9])],
)
def test_states_stand_at_the_quantiles(eligible: int, ordinals: list[int]) -> None:
    assert [ordinal for ordinal, _ in chosen_ordinals(eligible)] == ordinals
    assert chosen_ordinals(eligible)[-1] == (eligible - 1, 1.0)


def test_a_trajectory_gives_three_states_with_their_next_outputs() -> None:
    frozen = freeze_trajectory(run_of(14), TOKENIZER, CAPS)
    assert frozen.eligible == 9  # Steps 5 to 13 have at least three older ones behind Recent2
    assert [state.ordinal for state in frozen.states] == [2, 5, 8]
    for state in frozen.states:
        assert state.next_output.wire["content"] == f"step {state.ordinal + 5}"
        request = state.state.history.request
        assert len(request.messages) == state.decision
        again = freeze(request, TOKENIZER, CAPS.context)
        assert isinstance(again, DecisionState)
        assert again.candidates == state.state.candidates


def test_the_states_do_not_depend_on_outcomes() -> None:
    """Neither the reward nor anything said after a state's decision changes its candidates."""
    one, other = run_of(14), run_of(14, reward=0.0)
    for message in other.request["messages"]:
        if message["role"] == "assistant" and message["content"] == "step 13":
            message["content"] = "something else altogether " * 20
            message.pop("tool_calls")
    other.request["messages"].pop()
    for first, second in zip(
        freeze_trajectory(one, TOKENIZER, CAPS).states, freeze_trajectory(other, TOKENIZER, CAPS).states, strict=True
    ):
        assert first.state.candidates == second.state.candidates
        assert first.state.history.request == second.state.history.request


@pytest.mark.parametrize(
    ("trajectory", "reason"),
    [
        (run_of(5), "too_few_candidates: 2 of at least 3: 4 Steps, 2 older than the latest two"),
        (
            Trajectory("r", "openai", {"messages": [{"role": "user", "content": "hi"}]}, "test/1"),
            "too_few_candidates: no assistant message behind the prefix",
        ),
    ],
)
def test_a_trajectory_without_states_says_why(trajectory: Trajectory, reason: str) -> None:
    frozen = freeze_trajectory(trajectory, TOKENIZER, CAPS)
    assert frozen == (0, (), reason, None)


def test_an_aborted_call_protects_its_step_and_no_more() -> None:
    trajectory = run_of(14)
    messages = trajectory.request["messages"]
    del messages[2 * 4 + 2]  # the result of Step 4
    frozen = freeze_trajectory(trajectory, TOKENIZER, CAPS)
    assert frozen.eligible == 8  # one complete Step less
    for state in frozen.states:
        assert 4 not in {candidate.block.step for candidate in state.state.candidates}


def test_a_result_without_a_call_ends_the_eligible_decisions() -> None:
    trajectory = run_of(14)
    messages = trajectory.request["messages"]
    messages.insert(2 * 8 + 3, {"role": "tool", "tool_call_id": "nobody", "content": "?"})  # behind Step 8
    frozen = freeze_trajectory(trajectory, TOKENIZER, CAPS)
    assert frozen.eligible == 4
    assert messages[frozen.states[-1].decision]["content"] == "step 8"


class IncompleteTokenizer(ScriptedTokenizer):
    """A double without a piece for U+007F."""

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        for index, text in enumerate(texts):
            if "\x7f" in text:
                raise AlignmentError("no piece for the byte 0x7F", content=index)
        return super().encode_contents(texts)


INCOMPLETE = IncompleteTokenizer()


def usable_one_by_one(trajectory: Trajectory) -> list[int]:
    """The slow obvious twin for runs that cannot be used to their end: each decision is read and frozen on its own."""
    messages, usable = trajectory.request["messages"], []
    for index, message in enumerate(messages):
        try:
            before = read_request({**trajectory.request, "messages": messages[:index]}, protocol=trajectory.protocol)
            output = read_request({"messages": [message]}, protocol=trajectory.protocol).messages[0]
            render_output(output, INCOMPLETE)
        except (RequestError, AlignmentError):
            continue
        is_decision = output.role == "assistant" and index >= read_history(before).prefix_length
        if is_decision and isinstance(freeze(before, INCOMPLETE, CAPS.context), DecisionState):
            usable.append(index)
    return usable


def spoilt(message: dict[str, Any], how: str) -> dict[str, Any]:
    match how:
        case "untokenizable":
            return {**message, "content": "a control character: \x7f"}
        case "unknown role":
            return {**message, "role": "narrator"}
        case "too large":
            return {**message, "content": "x" * MAX_REQUEST_CHARACTERS}
    return {**message, "content": "half a pair: \ud800"}


@pytest.mark.parametrize("how", ["untokenizable", "unknown role", "too large", "lone surrogate"])
@pytest.mark.parametrize("place", [0, 11, 12, 21, 39, 40])
def test_a_message_that_cannot_be_used_takes_no_decision_before_it(how: str, place: int) -> None:
    trajectory = run_of(20)
    messages = trajectory.request["messages"]
    messages[place] = spoilt(messages[place], how)
    frozen = freeze_trajectory(trajectory, INCOMPLETE, CAPS)
    usable = usable_one_by_one(trajectory)
    assert frozen.eligible == len(usable) == {0: 0, 11: 0, 12: 1, 21: 5, 39: 14, 40: 15}[place]
    assert [state.decision for state in frozen.states] == [
        usable[at] for at, _ in chosen_ordinals(len(usable)) if usable
    ]
    assert f"message {place}" in str(frozen.why_cut)
    assert frozen.why_none == (None if usable else frozen.why_cut)
    for state in frozen.states:
        whole = next(s for s in _all_states(run_of(20)) if s[0] == state.decision)
        assert (state.decision, content_key(state.state.history.request.to_wire()), state.state.candidates) == whole


def _all_states(trajectory: Trajectory) -> list[tuple[int, str, Any]]:
    """Every eligible decision of a sound run, frozen from its own request."""
    request = read_request(trajectory.request, protocol=trajectory.protocol)
    found = []
    for step in read_history(request).steps:
        state = freeze(request.with_messages(request.messages[: step.message]), INCOMPLETE, CAPS.context)
        if isinstance(state, DecisionState):
            found.append((step.message, content_key(state.history.request.to_wire()), state.candidates))
    return found


def test_the_first_of_several_messages_that_cannot_be_used_ends_the_part() -> None:
    trajectory = run_of(20)
    messages = trajectory.request["messages"]
    messages[30] = spoilt(messages[30], "untokenizable")
    messages[20] = spoilt(messages[20], "untokenizable")
    messages[36] = spoilt(messages[36], "unknown role")
    frozen = freeze_trajectory(trajectory, INCOMPLETE, CAPS)
    assert frozen.eligible == len(usable_one_by_one(trajectory)) == 5
    assert frozen.why_cut == "alignment_failure: message 20: no piece for the byte 0x7F"


def test_what_stands_outside_the_messages_is_no_messages_fault() -> None:
    for tools, error in (("hammer", RequestError), ([{"name": "\x7f"}], AlignmentError)):
        trajectory = run_of(20)
        trajectory.request["tools"] = tools
        with pytest.raises(error):
            freeze_trajectory(trajectory, INCOMPLETE, CAPS)


def test_the_rule_hash_depends_on_the_context_cap_alone_of_the_caps() -> None:
    assert rule_hash(Caps(100, 10)) != rule_hash(Caps(101, 10))
    assert rule_hash(Caps(100, 10)) == rule_hash(Caps(100, 20))
