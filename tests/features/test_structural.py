"""Every structural column against a request small enough to count by hand."""

from __future__ import annotations

from math import log1p
from typing import Any

import numpy as np
import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState
from drsr.features.layout import STRUCTURAL
from drsr.features.structural import structural_features
from drsr.request.history import removal
from tests.features.states import call, state_of

LOG = "/data/log.txt"


def said(text: str | None, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **fields}


def result(number: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": f"find order_17 in {LOG}"},
    said(None, call(0, "read", path=LOG)),  # Step 0
    result(0, f"order_17 pending\nerror 42 at {LOG}\nexit code 3"),
    said("looking again now please", reasoning_content="hmm maybe"),  # Step 1
    {"role": "user", "content": "go on"},
    said(None, call(2, "read", path=LOG)),  # Step 2: the same call again
    result(2, "order_17 shipped ok"),
    said(None, call(3, "bash", cmd="ls"), call(4, "read", path="x")),  # Step 3
    result(3, ""),
    result(4, "order_17 pending"),
    said(None, call(5, "read", path="order_17")),  # Recent2: Step 4
    result(5, "shipped 42"),
    said("done with order_17"),  # and Step 5
    {"role": "user", "content": "thanks now report"},
]


def columns(messages: Any, context_cap: int = 10**6) -> list[dict[str, float]]:
    state = state_of(messages, ScriptedTokenizer(), context_cap)
    return [dict(zip((name for name, _ in STRUCTURAL), row, strict=True)) for row in structural_features(state)]


def small_state() -> DecisionState:
    state = state_of(MESSAGES, ScriptedTokenizer())
    assert [candidate.block.name for candidate in state.candidates] == ["0.1", "1.0", "2.1", "3.2"]
    return state


def test_all_columns_of_one_candidate() -> None:
    """Block 0.1: a call `read path /data/log.txt` (23 characters, 5 words) and its result (54 characters, 11 words).

    Its 13 distinct words: read path data log txt order_17 pending error 42 at exit code 3.
    """
    state = small_state()
    candidate, length = state.candidates[0], len(state.rendering)
    tokens = sum(map(len, candidate.token_spans))
    savings = [other.direct_saving for other in state.candidates]
    together = state.rendering.direct_saving(removal(state.history, [other.block for other in state.candidates]))
    expected = {
        "steps_before": 0,
        "step_age": log1p(5),
        "step_position": 0,
        "token_position": candidate.token_spans[0].start / length,
        "token_distance": log1p(length - candidate.token_spans[-1].stop),
        "user_messages_since": log1p(2),
        "is_assistant_state": 0,
        "component_index": 1,
        "step_blocks": 1,
        "is_only_block": 1,
        "reasoning_share": 0,
        "characters": log1p(77),
        "words": log1p(16),
        "tokens": log1p(tokens),
        "direct_saving": log1p(savings[0]),
        "request_share": savings[0] / length,
        "step_share": 1,
        "pool_share": savings[0] / sum(savings),
        "characters_per_token": 77 / tokens,
        "call_share": 23 / 77,
        "task_precision": 4 / 13,  # order_17 data log txt
        "task_recall": 4 / 6,  # not: find in
        "recent_precision": 4 / 13,  # read path order_17 42
        "recent_recall": 4 / 10,  # not: shipped done with thanks now report
        "last_message_precision": 0,
        "last_message_recall": 0,
        "identifiers_in_task": 1,  # order_17 is the only one
        "identifiers_in_recent": 1,
        "introduced_share": 9 / 13,  # all but the task's four
        "introduced_reused": 4 / 9,  # read path pending 42
        "same_tool_before": 0,
        "same_tool_after": log1p(3),
        "same_tool_share": 4 / 5,
        "same_tool_recent": 1,
        "identical_call_before": 0,
        "identical_call_after": 1,
        "recent_arguments_recall": 1,  # read path order_17
        "later_arguments_recall": 6 / 10,  # not: bash cmd ls x
        "nearest_candidate": 6 / 15,  # 2.1 has 8 words, 6 of them shared
        "nearest_block": 6 / 15,
        "covered_by_candidates": 7 / 13,  # read path data log txt order_17 pending
        "covered_by_retained": 7 / 13,  # order_17 data log txt read path 42
        "unique_share": 5 / 13,  # error at exit code 3
        "is_duplicate": 0,
        "error_density": 1 / 16,
        "success_density": 0,
        "path_density": 2 / 16,
        "numeric_density": 2 / 16,
        "nonzero_exit_density": 1 / 16,
        "symbol_density": 6 / 78,  # / / . twice; a line break stands between call and result
        "distinct_share": 13 / 16,
        "is_empty_result": 0,
        "request_tokens": log1p(length),
        "request_steps": log1p(6),
        "pool_size": 4,
        "pool_saving_share": together / length,
        "view_share": 1,
        "ends_with_user": 1,
    }
    assert columns(MESSAGES)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (
            1,  # 1.0: hmm maybe looking again now please
            {
                "steps_before": log1p(1),
                "step_position": 1 / 5,
                "user_messages_since": log1p(2),
                "is_assistant_state": 1,
                "component_index": 0,
                "reasoning_share": 9 / 33,
                "call_share": 0,
                "recent_precision": 1 / 6,  # now
                "last_message_precision": 1 / 6,
                "last_message_recall": 1 / 3,
                "introduced_share": 1,
                "introduced_reused": 1 / 6,
                "same_tool_share": 0,
                "same_tool_recent": 0,
                "identical_call_after": 0,
                "nearest_candidate": 0,
                "identifiers_in_recent": 0,
                "unique_share": 5 / 6,
            },
        ),
        (
            2,  # 2.1: read path data log txt order_17 shipped ok
            {
                "user_messages_since": log1p(1),
                "identical_call_before": 1,
                "identical_call_after": 0,
                "same_tool_before": log1p(1),
                "same_tool_after": log1p(2),
                "success_density": 1 / 8,
                "introduced_share": 2 / 8,  # shipped ok
                "introduced_reused": 1 / 2,
            },
        ),
        (
            3,  # 3.2: read path x order_17 pending
            {
                "component_index": 2,
                "step_blocks": 2,
                "is_only_block": 0,
                "same_tool_before": log1p(2),
                "same_tool_after": log1p(1),
                "identical_call_before": 0,
                "covered_by_candidates": 4 / 5,
                "unique_share": 1 / 5,  # x
            },
        ),
    ],
)
def test_other_candidates(candidate: int, expected: dict[str, float]) -> None:
    found = columns(MESSAGES)[candidate]
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def steps(*contents: tuple[str, str]) -> list[dict[str, Any]]:
    """A task, one Step per (argument, result), and two recent Steps."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "task"}]
    for number, (argument, text) in enumerate([*contents, ("recent", "one"), ("recent", "two")]):
        messages += [said(None, call(number, "f", x=argument)), result(number, text)]
    return messages


def test_duplicates_say_the_same_in_call_and_result() -> None:
    found = columns(steps(("a", "same words"), ("a", "same words"), ("b", "same words")))
    assert [row["is_duplicate"] for row in found] == [1, 1, 0]
    assert [row["nearest_candidate"] for row in found] == [1, 1, 4 / 6]


def test_an_empty_result() -> None:
    found = columns(steps(("a", " \n"), ("b", "x"), ("c", "")))
    assert [row["is_empty_result"] for row in found] == [1, 0, 1]


def test_the_share_that_the_backbone_sees() -> None:
    messages = steps(*[(f"a{number}", "some words here") for number in range(8)])
    whole = state_of(messages, ScriptedTokenizer())
    cap = len(whole.rendering) - 40
    cut = state_of(messages, ScriptedTokenizer(), cap)
    seen = len(cut.view.token_ids(cut.rendering.token_ids))
    assert cut.view.start > 0
    assert columns(messages, cap)[0]["view_share"] == seen / len(whole.rendering) < 1


def test_demonstrations_are_not_the_task() -> None:
    example = [{"role": "user", "content": "alpha", "is_demo": True}, {**said("beta"), "is_demo": True}]
    plain = steps(("alpha", "task"), ("b", "x"), ("c", "y"))
    assert columns(example + plain)[0]["task_recall"] == 1
    assert columns(example + plain)[0]["introduced_share"] < columns(plain)[0]["introduced_share"]


def test_an_assistant_state_is_related_to_the_tools_that_its_step_calls() -> None:
    messages = steps(("a", "x"), ("b", "x"), ("c", "x"))
    messages[1]["content"] = "a long thought about what to do next " * 4
    row = columns(messages)[0]
    assert row["is_assistant_state"] == 1
    assert row["same_tool_after"] == log1p(4)
    assert row["same_tool_share"] == 1
    assert row["identical_call_after"] == 0


def test_anthropic_results_are_not_user_messages() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "task"}]
    for number in range(5):
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}}]}
        )
        answer: list[dict[str, Any]] = [{"type": "tool_result", "tool_use_id": f"c{number}", "content": "found"}]
        messages.append(
            {"role": "user", "content": answer + ([{"type": "text", "text": "and?"}] if number == 3 else [])}
        )
    found = columns(messages)
    assert {row["user_messages_since"] for row in found} == {log1p(1)}
    assert found[0]["ends_with_user"] == 0


def test_every_row_is_finite_and_the_state_is_left_alone() -> None:
    state = small_state()
    before = [message.wire for message in state.history.request.messages]
    first = structural_features(state)
    assert np.isfinite(first).all()
    assert np.array_equal(first, structural_features(state))
    assert [message.wire for message in state.history.request.messages] == before
