"""Logs of gateways: one run per conversation, never one per call."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, one, only_problem, read_bytes, shape
from tests.offline.ingest.formats.team_miniatures import (
    ANSWER,
    CHAT,
    CONTENTS,
    LITELLM,
    REQUEST_RESPONSE,
    RESPONSES,
    TOOL,
    payload,
)

Json = dict[str, Any]


def runs(values: list[Any]) -> list[Trajectory]:
    return [item for item in read_bytes(as_lines(values)) if isinstance(item, Trajectory)]


def talk(calls: int) -> list[Json]:
    """A conversation of so many calls, as messages."""
    messages = [{"role": "user", "content": "Count."}]
    for number in range(calls):
        messages += [{"role": "assistant", "content": f"{number}."}, {"role": "user", "content": "More."}]
    return messages


def test_one_run_per_trace_with_the_last_response() -> None:
    trajectory = one(read_bytes(as_lines(LITELLM)))
    assert trajectory.request == {"messages": CHAT, "tools": [TOOL]}
    assert (trajectory.external_id, trajectory.task) == ("lite-1", "lite-1")


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_calls_with_a_trace_each_are_still_one_run(order: tuple[int, ...]) -> None:
    said = talk(4)
    lines = [payload(n, said[: 2 * n + 1], said[2 * n + 1], f"trace-{n}") for n in range(4)]
    (run,) = runs([lines[number] for number in order])
    assert run.request["messages"] == said[:8]
    assert run.external_id == "trace-0"


def test_equal_beginnings_that_were_answered_differently_are_two_runs() -> None:
    said = talk(1)
    other = {"role": "assistant", "content": "Zero."}
    lines = [payload(1, said[:1], other, "a"), payload(2, [*said[:1], said[1], said[2]], ANSWER_MESSAGE, "b")]
    assert sorted(shape(run) for run in runs(lines)) == [
        ["user", "assistant"],
        ["user", "assistant", "user", "assistant"],
    ]


ANSWER_MESSAGE = {"role": "assistant", "content": ANSWER}


def test_a_call_that_failed_does_not_hide_the_answer_to_the_same_history() -> None:
    failed = {**payload(9, CHAT[:4], CHAT[4]), "response": None, "status": "failure", "error_str": "overloaded"}
    for order in ([*LITELLM, failed], [failed, *LITELLM]):
        assert one(read_bytes(as_lines(order))).request["messages"] == CHAT


def test_the_other_names_of_both_sides() -> None:
    line = {"request_body": {"messages": CHAT[:4]}, "response_body": {"choices": [{"message": CHAT[4]}]}}
    assert one(read_bytes(as_lines([line]))).request["messages"] == CHAT


def test_calls_in_strings_and_ids_elsewhere() -> None:
    lines = copy.deepcopy(LITELLM)
    for line in lines:
        del line["trace_id"]
        line["litellm_params"] = {"litellm_trace_id": "lite-2"}
        line["messages"] = as_lines([line["messages"]]).decode()
        line["response"] = as_lines([line["response"]]).decode()
    trajectory = one(read_bytes(as_lines(lines)))
    assert (trajectory.request["messages"], trajectory.external_id) == (CHAT, "lite-2")


def test_messages_that_litellm_left_out() -> None:
    redacted = [{"role": "user", "content": "redacted-by-litellm"}]
    problem = only_problem(read_bytes(as_lines([payload(1, redacted, ANSWER_MESSAGE)])))
    assert "turn_off_message_logging" in problem.detail


def test_an_answer_in_openais_form_to_a_request_in_anthropics() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"part": "chain"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "rusty"}
    sent = [CHAT[1], {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    answer = {**CHAT[2], "tool_calls": [{**CHAT[2]["tool_calls"][0], "id": "c2"}]}
    trajectory = one(read_bytes(as_lines([payload(1, sent, answer)])))
    assert trajectory.protocol == "anthropic"
    assert trajectory.request["messages"][-1] == {"role": "assistant", "content": [{**use, "id": "c2"}]}


def test_pairs_without_any_id_are_joined_by_what_they_say() -> None:
    trajectory = one(read_bytes(as_lines(REQUEST_RESPONSE)))
    assert trajectory.request["messages"] == CHAT
    assert (trajectory.external_id, trajectory.task) == ("runs.json#0", None)


@pytest.mark.parametrize(
    "lines",
    [
        [{"request": {"body": {"messages": CHAT[:4]}}, "response": {"body": {"choices": [{"message": CHAT[4]}]}}}],
        [{"request": {"contents": CONTENTS[:3]}, "response": {"candidates": [{"content": CONTENTS[3]}]}}],
        [
            {
                "request": {"input": [*RESPONSES[0]["input"], *RESPONSES[0]["output"], *RESPONSES[1]["input"]]},
                "response": RESPONSES[1],
            }
        ],
        [
            {
                "request": {"system": "Fix.", "messages": CHAT[1:2]},
                "response": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
            }
        ],
    ],
)
def test_bodies_of_every_api(lines: list[Json]) -> None:
    trajectory = one(read_bytes(as_lines(lines)))
    assert shape(trajectory)[-1] == "assistant"
    content = trajectory.request["messages"][-1]["content"]
    assert content in (ANSWER, [{"type": "text", "text": ANSWER}])


def test_an_input_that_only_goes_on_is_not_taken_for_a_whole_history() -> None:
    line = {"request": {"input": RESPONSES[1]["input"]}, "response": RESPONSES[1]}
    assert only_problem(read_bytes(as_lines([line]))).reason == "dangling_result"
