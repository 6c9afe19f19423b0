"""Every violation by its name and message, and how results find their calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from drsr.request.parts import Call, PartRef, Result
from drsr.request.protocol import (
    Pairing,
    Violation,
    ViolationKind,
    _all_violations,
    _plain_violations,
    new_violations,
    pair_calls,
    violations,
)
from drsr.request.request import Request, read_request
from tests.messages import SAYS, USER, answers, asks, returns, uses
from tests.strategies import aborted, arbitrary, valid

OPENAI_CASES: list[tuple[list[dict[str, Any]], list[tuple[str, int, str]]]] = [
    ([], []),
    ([USER, asks("a"), answers("a")], []),
    ([USER, asks("a", "b"), answers("b"), answers("a"), SAYS], []),
    ([asks("a"), answers("a"), asks("a"), answers("a")], []),
    ([USER, asks("a", "a"), answers("a"), answers("a")], []),
    # a result without a call
    ([USER, answers("a")], [("result_without_call", 1, "a")]),
    ([USER, asks("a"), answers("a"), answers("a")], [("result_without_call", 3, "a")]),
    ([USER, answers("a"), asks("a"), answers("a")], [("result_without_call", 1, "a")]),
    ([USER, asks("a"), answers("b")], [("result_without_call", 2, "b")]),
    ([USER, {"role": "function", "name": "f", "content": None}], [("result_without_call", 1, "function:f")]),
    # a call without a result
    ([USER, asks("a"), SAYS], [("call_without_result", 1, "a")]),
    ([USER, asks("a", "b"), answers("b"), SAYS], [("call_without_result", 1, "a")]),
    ([USER, asks("a"), asks("a"), answers("a")], [("call_without_result", 1, "a")]),
    ([USER, SAYS, asks("a", "b"), answers("a")], []),  # in the last Step
    ([USER, asks("a")], []),
    # results out of place
    ([USER, asks("a"), USER, answers("a")], [("result_out_of_place", 3, "a")]),
    ([USER, asks("a"), SAYS, answers("a")], [("result_out_of_place", 3, "a")]),
    ([USER, asks("a"), asks("b"), answers("a"), answers("b")], [("result_out_of_place", 3, "a")]),
    ([USER, asks("a", "b"), answers("a"), USER, answers("b")], [("result_out_of_place", 4, "b")]),
    # an empty assistant message
    ([USER, {"role": "assistant", "content": ""}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": None}, USER], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant"}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": []}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": "", "tool_calls": []}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": [{"type": "text", "text": ""}]}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": None, "refusal": "no"}], []),
    ([USER, {"role": "assistant", "content": None, "audio": {"id": "x"}}], []),
    # several, in message order
    (
        [answers("x"), asks("a"), {"role": "assistant", "content": ""}, answers("a"), asks("b"), SAYS],
        [
            ("result_without_call", 0, "x"),
            ("empty_assistant_message", 2, ""),
            ("result_out_of_place", 3, "a"),
            ("call_without_result", 4, "b"),
        ],
    ),
]

ANTHROPIC_CASES: list[tuple[list[dict[str, Any]], list[tuple[str, int, str]]]] = [
    ([], []),
    ([USER, uses("a"), returns("a")], []),
    ([USER, uses("a", "b"), returns("b", "a", behind="and now?")], []),
    ([USER, uses("a"), returns("a"), uses("a"), returns("a"), SAYS], []),
    ([USER, uses("a", "a"), returns("a", "a")], []),
    ([SAYS, USER], [("first_message_not_user", 0, "assistant")]),
    ([uses("a"), returns("a")], [("first_message_not_user", 0, "assistant")]),
    ([returns("a")], [("result_without_call", 0, "a")]),
    ([USER, uses("a"), returns("a", "a")], [("result_without_call", 2, "a")]),
    ([USER, uses("a"), returns("a"), returns("a")], [("result_without_call", 3, "a")]),
    ([USER, uses("a"), USER, SAYS], [("call_without_result", 1, "a")]),
    ([USER, uses("a", "b"), returns("a"), SAYS], [("call_without_result", 1, "b")]),
    ([USER, uses("a")], []),  # in the last Step
    ([USER, uses("a"), USER, returns("a")], [("result_out_of_place", 3, "a")]),
    ([USER, uses("a", "b"), returns("a"), returns("b")], [("result_out_of_place", 3, "b")]),
    ([USER, uses("a"), SAYS, returns("a")], [("result_out_of_place", 3, "a")]),
    ([USER, uses("a"), returns("a", before="wait")], [("result_out_of_place", 2, "a")]),
    ([USER, {"role": "assistant", "content": []}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": ""}], [("empty_assistant_message", 1, "")]),
    ([USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": ""}]}], []),
]


@pytest.mark.parametrize(("messages", "expected"), OPENAI_CASES)
def test_openai_violations(messages: list[dict[str, Any]], expected: list[tuple[str, int, str]]) -> None:
    assert violations(read_request(messages, protocol="openai")) == expected


@pytest.mark.parametrize(("messages", "expected"), ANTHROPIC_CASES)
def test_anthropic_violations(messages: list[dict[str, Any]], expected: list[tuple[str, int, str]]) -> None:
    assert violations(read_request(messages, protocol="anthropic")) == expected


def test_every_kind_of_violation_is_seen_above() -> None:
    seen = {kind for _, expected in OPENAI_CASES + ANTHROPIC_CASES for kind, _, _ in expected}
    assert seen == {kind.value for kind in ViolationKind}


def test_a_violation_says_what_and_where() -> None:
    (violation,) = violations(read_request([USER, answers("call_7")]))
    assert str(violation) == "result_without_call at message 1 (call_7)"
    assert str(Violation(ViolationKind.EMPTY_ASSISTANT_MESSAGE, 3, "")) == "empty_assistant_message at message 3"


@given(valid)
def test_requests_built_by_the_rules_have_no_violation(request: Request) -> None:
    assert violations(request) == []


@given(aborted)
def test_requests_with_aborted_calls_break_no_other_rule(request: Request) -> None:
    assert {violation.kind for violation in violations(request)} <= {ViolationKind.CALL_WITHOUT_RESULT}


# Pairing


def refs(pairing: Pairing) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return sorted(pairing.result_of.items())


@pytest.mark.parametrize(
    ("messages", "pairs", "unanswered", "orphans"),
    [
        # one id for all calls of a run: each result belongs to the call right before it
        ([asks("a"), answers("a"), asks("a"), answers("a")], [((0, 0), (1, 0)), ((2, 0), (3, 0))], [], []),
        # an unanswered call does not take a later call's result
        ([asks("a"), asks("a"), answers("a")], [((1, 0), (2, 0))], [(0, 0)], []),
        # within one message in order
        ([asks("a", "a"), answers("a"), answers("a")], [((0, 0), (1, 0)), ((0, 1), (2, 0))], [], []),
        ([asks("a", "b", "a"), answers("a")], [((0, 0), (1, 0))], [(0, 1), (0, 2)], []),
        # the nearest first, then the one before
        ([asks("a"), asks("a"), answers("a"), answers("a")], [((0, 0), (3, 0)), ((1, 0), (2, 0))], [], []),
        # a result never belongs to a later call
        ([answers("a"), asks("a")], [], [(1, 0)], [(0, 0)]),
        ([asks("a", text="x"), answers("a"), answers("a")], [((0, 1), (1, 0))], [], [(2, 0)]),
    ],
)
def test_pairing_is_by_the_nearest_open_call(
    messages: list[dict[str, Any]],
    pairs: list[tuple[tuple[int, int], tuple[int, int]]],
    unanswered: list[tuple[int, int]],
    orphans: list[tuple[int, int]],
) -> None:
    pairing = pair_calls(read_request(messages))
    assert refs(pairing) == pairs
    assert pairing.unanswered == unanswered
    assert pairing.orphans == orphans


def test_a_legacy_function_call_is_paired_by_its_name() -> None:
    messages = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
        asks("f"),
        answers("f"),
    ]
    request = read_request(messages)
    assert refs(pair_calls(request)) == [((0, 0), (1, 0)), ((2, 0), (3, 0))]
    assert violations(request) == []


def slow_pairs(request: Request) -> dict[PartRef, PartRef]:
    """For each result in turn: search back, message by message, for the first call of its id that is still open."""
    found: dict[PartRef, PartRef] = {}
    for index, message in enumerate(request.messages):
        for number, part in enumerate(message.parts):
            if not isinstance(part, Result):
                continue
            for before in reversed(range(index)):
                calls = [
                    PartRef(before, place)
                    for place, other in enumerate(request.messages[before].parts)
                    if isinstance(other, Call) and other.id == part.call_id and PartRef(before, place) not in found
                ]
                if calls:
                    found[calls[0]] = PartRef(index, number)
                    break
    return found


@given(arbitrary)
def test_pairing_equals_a_slow_search(request: Request) -> None:
    pairing = pair_calls(request)
    assert pairing.result_of == slow_pairs(request)
    parts = [
        (PartRef(index, number), part)
        for index, message in enumerate(request.messages)
        for number, part in enumerate(message.parts)
    ]
    calls = [ref for ref, part in parts if isinstance(part, Call)]
    results = [ref for ref, part in parts if isinstance(part, Result)]
    assert sorted([*pairing.result_of, *pairing.unanswered]) == calls
    assert sorted([*pairing.result_of.values(), *pairing.orphans]) == results


# What is new in a rewrite


def test_a_violation_that_moved_with_its_message_is_not_new() -> None:
    original = read_request([USER, SAYS, answers("x"), SAYS])
    rewrite = read_request([USER, answers("x"), SAYS])
    assert new_violations(rewrite, (0, 2, 3), violations(original)) == []


def test_a_violation_at_another_message_is_new() -> None:
    original = read_request([USER, SAYS, answers("x"), SAYS])
    rewrite = read_request([USER, answers("x"), SAYS])
    assert new_violations(rewrite, (0, 1, 3), violations(original)) == [("result_without_call", 1, "x")]


def test_who_speaks_first_is_judged_for_the_whole_request() -> None:
    original = read_request([SAYS, SAYS, USER], protocol="anthropic")
    rewrite = read_request([SAYS, USER], protocol="anthropic")
    assert new_violations(rewrite, (1, 2), violations(original)) == []
    assert new_violations(rewrite, (1, 2), []) == [("first_message_not_user", 0, "assistant")]


@given(request=arbitrary | aborted | valid)
def test_the_short_pass_finds_what_the_whole_one_finds(request: Request) -> None:
    plain = _plain_violations(request)
    assert plain is None or plain == _all_violations(request)


@pytest.mark.parametrize(("messages", "expected"), OPENAI_CASES)
def test_the_short_pass_on_every_case(messages: list[dict[str, Any]], expected: list[tuple[str, int, str]]) -> None:
    plain = _plain_violations(read_request(messages))
    assert plain is None or [tuple(violation) for violation in plain] == expected
    if all(kind == "call_without_result" for kind, _, _ in expected) and messages:
        asked = [call for message in messages for call in message.get("tool_calls", ())]
        assert plain is not None or len({call["id"] for call in asked}) < len(asked)
