"""Prefix, Steps, Blocks and Recent2, and joint deletion with every edge case."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.request.history import Block, BlockKind, History, delete, read_history, removal
from drsr.request.parts import PartRef, Reasoning, Result, is_reasoning, says_something
from drsr.request.protocol import new_violations, violations
from drsr.request.request import Protocol, Request, read_request
from tests.messages import SAYS, USER, answers, asks, returns, texts, uses
from tests.strategies import arbitrary, deletable, deletions, valid

SYSTEM = {"role": "system", "content": "be good"}
IMAGE = {"type": "image", "source": {}}
THINKING = {"type": "thinking", "thinking": "t", "signature": "s"}


def history_of(messages: list[dict[str, Any]], protocol: Protocol = "openai") -> History:
    return read_history(read_request(messages, protocol=protocol))


def block(history: History, name: str) -> Block:
    return next(block for step in history.steps for block in step.blocks if block.name == name)


def without(messages: list[dict[str, Any]], *names: str, protocol: Protocol = "openai") -> Any:
    """The messages that are left when the named Blocks are deleted."""
    history = history_of(messages, protocol)
    return delete(history, [block(history, name) for name in names]).request.to_wire()


# The prefix


@pytest.mark.parametrize(
    ("messages", "length"),
    [
        ([], 0),
        ([SYSTEM], 1),
        ([SYSTEM, USER], 2),
        ([SYSTEM, {"role": "developer", "content": "x"}, USER, USER, SAYS, USER], 4),
        ([SAYS, USER], 0),
        ([SYSTEM, SAYS, USER], 1),
        ([USER, answers("a"), SAYS], 1),
        # demonstrations of another task, wherever they end
        ([SYSTEM, {**USER, "is_demo": True}, {**SAYS, "is_demo": True}, USER, SAYS], 4),
        ([SYSTEM, {**asks("a"), "is_demo": True}, {**answers("a"), "is_demo": True}, SAYS], 3),
        ([{**SYSTEM, "name": "example_user"}, {**SYSTEM, "name": "example_assistant"}, USER, SAYS], 3),
        ([{**SYSTEM, "name": "example_user"}, {**SAYS, "name": "example_assistant"}, USER, SAYS], 3),
        ([SYSTEM, {**USER, "is_demo": False}, {**SAYS, "is_demo": "no"}, USER], 2),
    ],
)
def test_the_prefix_is_instructions_demonstrations_and_the_task(messages: list[dict[str, Any]], length: int) -> None:
    assert history_of(messages).prefix_length == length


def test_demonstrations_are_no_steps() -> None:
    messages = [
        {**USER, "is_demo": True},
        {**asks("a"), "is_demo": True},
        {**answers("a"), "is_demo": True},
        USER,
        SAYS,
    ]
    assert [step.message for step in history_of(messages).steps] == [4]


# Steps and Blocks


def test_a_step_is_an_assistant_message_with_the_results_of_its_calls() -> None:
    history = history_of([USER, asks("a", "b", text="look"), answers("b"), answers("a"), USER, SAYS])
    first, second = history.steps
    assert (first.index, first.message, first.last_message, first.complete) == (0, 1, 3, True)
    assert (second.index, second.message, second.last_message, second.complete) == (1, 5, 5, True)
    assert [(block.name, block.kind, block.parts) for block in first.blocks] == [
        ("0.0", BlockKind.ASSISTANT_STATE, ((1, 0),)),
        ("0.1", BlockKind.TOOL_EXCHANGE, ((1, 1), (3, 0))),
        ("0.2", BlockKind.TOOL_EXCHANGE, ((1, 2), (2, 0))),
    ]
    assert [block.name for block in second.blocks] == ["1.0"]


def test_exchanges_are_numbered_from_one_also_where_nothing_is_said() -> None:
    for content in (None, "", [], texts("", "")):
        (step,) = history_of([USER, {**asks("a"), "content": content}, answers("a")]).steps
        assert [block.name for block in step.blocks] == ["0.1"]


def test_the_assistant_state_is_all_text_and_reasoning_of_the_step() -> None:
    message = asks("a", reasoning_content="r", refusal="no")
    (step,) = history_of([USER, {**message, "content": texts("x", "", "y")}, answers("a")]).steps
    assert step.blocks[0].parts == tuple(PartRef(1, number) for number in range(5))
    assert step.blocks[1].parts == ((1, 5), (2, 0))


def test_text_behind_the_calls_belongs_to_the_assistant_state() -> None:
    content = [*texts("x"), *uses("a")["content"], THINKING, *uses("b")["content"], *texts("y")]
    (step,) = history_of([USER, {"role": "assistant", "content": content}, returns("a", "b")], "anthropic").steps
    assert [block.parts for block in step.blocks] == [((1, 0), (1, 2), (1, 4)), ((1, 1), (2, 0)), ((1, 3), (2, 1))]


def test_a_step_with_an_unanswered_call_is_incomplete_and_never_touched() -> None:
    history = history_of([USER, asks("a", "b", text="x"), answers("a"), SAYS, SAYS, SAYS])
    assert [step.complete for step in history.steps] == [False, True, True, True]
    assert [step.index for step in history.recent] == [2, 3]
    assert [step.index for step in history.older] == [1]
    for name in ("0.0", "0.1", "0.2"):
        with pytest.raises(ValueError, match=f"Block {name} is opaque, pinned or part of an incomplete Step"):
            delete(history, [block(history, name)])


@pytest.mark.parametrize(
    ("complete", "recent", "older"),
    [(0, [], []), (1, [0], []), (2, [0, 1], []), (3, [1, 2], [0]), (5, [3, 4], [0, 1, 2])],
)
def test_recent2_are_the_latest_complete_steps(complete: int, recent: list[int], older: list[int]) -> None:
    history = history_of([USER, *[SAYS] * complete, USER])
    assert [step.index for step in history.recent] == recent
    assert [step.index for step in history.older] == older


def test_recent2_skips_an_unfinished_last_step() -> None:
    history = history_of([USER, SAYS, SAYS, SAYS, asks("a")])
    assert [step.index for step in history.recent] == [1, 2]


@pytest.mark.parametrize(
    ("step", "opaque", "protocol"),
    [
        ([asks("a", text="x"), answers("a", texts("x"))], {"0.0": False, "0.1": False}, "openai"),
        ([asks("a", text="x"), answers("a", [{"type": "image_url"}])], {"0.0": False, "0.1": True}, "openai"),
        ([{**SAYS, "audio": {"id": "1"}}], {"0.0": True}, "openai"),
        ([{**SAYS, "content": [*texts("x"), {"type": "file"}]}], {"0.0": True}, "openai"),
        ([{**asks("a"), "reasoning_details": [{}]}, answers("a")], {"0.0": True, "0.1": False}, "openai"),
        ([uses("a", state=[{"type": "redacted_thinking"}]), returns("a")], {"0.0": True, "0.1": False}, "anthropic"),
        ([uses("a", state=[THINKING]), returns("a", content=[IMAGE])], {"0.0": False, "0.1": True}, "anthropic"),
    ],
)
def test_a_block_that_holds_more_than_text_is_opaque_and_never_deleted(
    step: list[dict[str, Any]], opaque: dict[str, bool], protocol: Protocol
) -> None:
    history = history_of([USER, *step], protocol)
    assert {block.name: block.opaque for block in history.steps[0].blocks} == opaque
    for found in history.steps[0].blocks:
        if found.opaque:
            with pytest.raises(ValueError, match=f"Block {found.name} is opaque"):
                delete(history, [found])


def test_an_image_beside_a_result_does_not_make_the_exchange_opaque() -> None:
    messages = [USER, uses("a"), {"role": "user", "content": [*returns("a")["content"], IMAGE]}]
    assert without(messages, "0.1", protocol="anthropic") == [USER, {"role": "user", "content": [IMAGE]}]


def test_pinned_reasoning_keeps_the_calls_it_led_to() -> None:
    """Without them it could not stay: providers refuse reasoning that leads to nothing."""
    request = read_request([USER, asks("a", "b", reasoning_content="I think"), answers("a"), answers("b"), SAYS])
    history = read_history(request, lambda found, _: found.component == 0)
    assert [found.pinned for found in history.steps[0].blocks] == [True, True, True]
    spoken = read_request([USER, asks("a", "b", text="I say"), answers("a"), answers("b"), SAYS])
    history = read_history(spoken, lambda found, _: found.component == 0)
    assert [found.pinned for found in history.steps[0].blocks] == [True, False, False]


def test_protect_pins_what_the_consumer_wants_kept() -> None:
    def protect(found: Block, request: Request) -> bool:
        return request.messages[found.parts[-1].message].wire.get("content") == "keep"

    request = read_request([USER, asks("a", "b", text="x"), answers("a", "keep"), answers("b"), SAYS])
    history = read_history(request, protect)
    assert [found.pinned for found in history.steps[0].blocks] == [False, True, False]
    with pytest.raises(ValueError, match=r"Block 0\.1 is opaque, pinned"):
        removal(history, history.steps[0].blocks)
    assert delete(history, [history.steps[0].blocks[2]]).request.to_wire()[1]["tool_calls"][0]["id"] == "a"


# Deletion, case by case


def test_deleting_an_assistant_state_leaves_the_calls_with_content_null() -> None:
    for content in ("x", texts("x"), texts("x", "", "y")):
        left = without([USER, {**asks("a"), "content": content}, answers("a")], "0.0")
        assert left == [USER, asks("a"), answers("a")]


def test_deleting_an_assistant_state_takes_reasoning_and_refusal_with_it() -> None:
    message = asks("a", text="x", reasoning="r", reasoning_content="c", refusal="no", name="agent")
    assert without([USER, message, answers("a")], "0.0") == [
        USER,
        {"role": "assistant", "content": None, "refusal": None, "name": "agent", "tool_calls": message["tool_calls"]},
        answers("a"),
    ]


def test_deleting_an_assistant_state_leaves_a_legacy_function_call() -> None:
    call = {"name": "f", "arguments": "{}"}
    result = {"role": "function", "name": "f", "content": "x"}
    messages = [USER, {"role": "assistant", "content": "x", "function_call": call}, result]
    assert without(messages, "0.0") == [USER, {"role": "assistant", "content": None, "function_call": call}, result]
    assert without(messages, "0.1") == [USER, {"role": "assistant", "content": "x"}]
    assert without(messages, "0.0", "0.1") == [USER]


def test_deleting_an_exchange_leaves_what_was_said_and_the_other_calls() -> None:
    messages = [USER, asks("a", "b", text="x"), answers("b"), answers("a")]
    assert without(messages, "0.1") == [USER, asks("b", text="x"), answers("b")]
    assert without(messages, "0.2") == [USER, asks("a", text="x"), answers("a")]
    assert without(messages, "0.1", "0.2") == [USER, {"role": "assistant", "content": "x"}]


def test_deleting_all_parts_of_a_message_deletes_the_message() -> None:
    assert without([USER, asks("a"), answers("a"), SAYS], "0.1") == [USER, SAYS]
    assert without([USER, asks("a", text=""), answers("a"), SAYS], "0.1") == [USER, SAYS]
    assert without([USER, asks("a", "b", text="x"), answers("a"), answers("b")], "0.0", "0.1", "0.2") == [USER]
    assert without([USER, SAYS, USER], "0.0") == [USER, USER]


def test_an_anthropic_user_message_keeps_its_text_when_its_results_go() -> None:
    messages = [USER, uses("a", "b"), returns("a", "b", behind="and now?"), SAYS]
    assert without(messages, "0.1", protocol="anthropic") == [USER, uses("b"), returns("b", behind="and now?"), SAYS]
    both = without(messages, "0.1", "0.2", protocol="anthropic")
    assert both == [USER, {"role": "user", "content": texts("and now?")}, SAYS]


def test_an_anthropic_user_message_of_results_alone_vanishes_with_them() -> None:
    messages = [USER, uses("a", state=texts("x")), returns("a"), SAYS]
    assert without(messages, "0.1", protocol="anthropic") == [USER, uses(state=texts("x")), SAYS]
    empty = {"role": "user", "content": [*returns("a")["content"], *texts("")]}
    assert without([USER, uses("a"), empty, SAYS], "0.1", protocol="anthropic") == [USER, SAYS]


def test_anthropic_thinking_and_text_go_together() -> None:
    messages = [USER, uses("a", state=[THINKING, *texts("x", "")]), returns("a")]
    assert without(messages, "0.0", protocol="anthropic") == [USER, uses("a"), returns("a")]


REDACTED = {"type": "redacted_thinking", "data": "AA=="}


def test_sealed_reasoning_never_stays_alone() -> None:
    """Nor at the end of a message. Anthropic refuses both."""
    for state in ([REDACTED], [THINKING, REDACTED], [REDACTED, THINKING]):
        messages = [USER, uses("a", state=state), returns("a"), SAYS]
        assert without(messages, "0.1", protocol="anthropic") == [USER, SAYS]
    two = [USER, uses("a", "b", state=[REDACTED]), returns("a", "b"), SAYS]
    assert without(two, "0.2", protocol="anthropic") == [USER, uses("a", state=[REDACTED]), returns("a"), SAYS]
    said = [USER, uses("a", state=[*texts("x"), REDACTED]), returns("a"), SAYS]
    assert without(said, "0.1", protocol="anthropic") == [USER, uses(state=texts("x")), SAYS]


@pytest.mark.parametrize("field", ["thinking_blocks", "reasoning_details"])
def test_sealed_reasoning_in_a_field_goes_with_the_only_call_and_stays_with_text(field: str) -> None:
    sealed = {field: [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    assert without([USER, {**asks("a"), **sealed}, answers("a"), SAYS], "0.1") == [USER, SAYS]
    said = {"role": "assistant", "content": "x", **sealed}
    messages = [USER, {**asks("a"), **said}, answers("a"), SAYS]
    assert without(messages, "0.1") == [USER, said, SAYS]


def test_repeated_ids_are_deleted_with_their_own_results() -> None:
    messages = [USER, asks("a", "a"), answers("a", "1"), answers("a", "2"), asks("a"), answers("a", "3")]
    assert without(messages, "0.1") == [USER, asks("a"), answers("a", "2"), asks("a"), answers("a", "3")]
    assert without(messages, "0.2") == [USER, asks("a"), answers("a", "1"), asks("a"), answers("a", "3")]
    assert without(messages, "1.1") == [USER, asks("a", "a"), answers("a", "1"), answers("a", "2")]


def test_later_user_messages_are_never_deleted() -> None:
    note = {"role": "user", "content": "a note"}
    messages = [USER, asks("a"), answers("a"), note, SAYS, note, SAYS]
    assert without(messages, "0.1", "1.0", "2.0") == [USER, note, note]


def test_the_other_fields_of_a_request_stay() -> None:
    body = {"model": "m", "messages": [USER, SAYS, USER], "tools": [{"x": 1}], "temperature": 0}
    history = read_history(read_request(body))
    rewritten = delete(history, history.steps[0].blocks)
    assert json.dumps(rewritten.request.to_wire()) == json.dumps({**body, "messages": [USER, USER]})
    assert rewritten.kept == (0, 2)


# Deletion, in general


any_deletion = deletions(st.one_of(valid, arbitrary))


@given(st.one_of(valid, arbitrary))
def test_deleting_nothing_is_the_identity(request: Request) -> None:
    rewritten = delete(read_history(request), [])
    assert rewritten.request == request
    assert rewritten.kept == tuple(range(len(request.messages)))
    assert json.dumps(rewritten.request.to_wire()) == json.dumps(request.to_wire())


@given(any_deletion, st.randoms(use_true_random=False))
def test_deletion_does_not_depend_on_the_order_of_the_blocks(case: tuple[History, list[Block]], random: Any) -> None:
    history, blocks = case
    shuffled = random.sample(blocks, len(blocks))
    assert delete(history, shuffled) == delete(history, blocks)
    assert delete(history, [*blocks, *shuffled]) == delete(history, blocks)


@given(any_deletion)
def test_deletion_leaves_the_original_untouched(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    before = copy.deepcopy(history)
    delete(history, blocks)
    assert history == before
    assert json.dumps(history.request.to_wire()) == json.dumps(before.request.to_wire())


@given(any_deletion)
def test_a_rewrite_has_no_violation_that_the_original_did_not_have(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    rewritten = delete(history, blocks)
    assert new_violations(rewritten.request, rewritten.kept, violations(history.request)) == []
    assert len(violations(rewritten.request)) <= len(violations(history.request))


@given(any_deletion)
def test_a_rewrite_reads_back_as_what_it_is(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    rewritten = delete(history, blocks).request
    assert read_request(rewritten.to_wire(), protocol=rewritten.protocol) == rewritten


@given(any_deletion)
def test_nothing_is_removed_but_the_blocks(case: tuple[History, list[Block]]) -> None:
    """Every part outside the Blocks that says something is still there, in order, and nothing else is; but for
    reasoning in a message that lost something, which may have gone with it."""
    history, blocks = case
    rewritten = delete(history, blocks)
    gone = {ref for found in blocks for ref in found.parts}
    touched = {ref.message for ref in gone}

    def counts(index: int, part: Any) -> bool:
        if is_reasoning(part):
            return index not in touched and says_something(part)
        return _said(part) != ("Text", "")

    expected = [
        (index, _said(part))
        for index, message in enumerate(history.request.messages)
        for number, part in enumerate(message.parts)
        if PartRef(index, number) not in gone and counts(index, part)
    ]
    found = [
        (rewritten.kept[index], _said(part))
        for index, message in enumerate(rewritten.request.messages)
        for part in message.parts
        if counts(rewritten.kept[index], part)
    ]
    assert found == expected
    for index, message in zip(rewritten.kept, rewritten.request.messages, strict=True):
        if index in touched and message.role == "assistant":
            assert not isinstance(message.parts[-1], Reasoning), "providers refuse a message that ends with reasoning"


def _said(part: Any) -> tuple[Any, ...]:
    """A part without its place, which may shift."""
    fields = [getattr(part, name) for name in part.__slots__ if name != "place"]
    return (type(part).__name__, *fields)


@given(any_deletion)
def test_messages_that_lose_nothing_are_the_same_byte_for_byte(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    rewritten = delete(history, blocks)
    touched = {ref.message for found in blocks for ref in found.parts}
    kept = dict(zip(rewritten.kept, rewritten.request.messages, strict=True))
    for index, message in enumerate(history.request.messages):
        if index not in touched:
            assert json.dumps(kept[index].wire) == json.dumps(message.wire)


@given(any_deletion)
def test_prefix_and_user_messages_are_never_touched(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    rewritten = delete(history, blocks)
    kept = dict(zip(rewritten.kept, rewritten.request.messages, strict=True))
    for index, message in enumerate(history.request.messages):
        users = message.role in ("user", "system") and not any(isinstance(part, Result) for part in message.parts)
        if index < history.prefix_length or users:
            assert kept[index] == message
    assert rewritten.request.system == history.request.system


@given(any_deletion, st.integers(min_value=0))
def test_deleting_in_two_goes_equals_deleting_at_once(case: tuple[History, list[Block]], mask: int) -> None:
    history, blocks = case
    first = [found for number, found in enumerate(blocks) if mask >> (number % 60) & 1]
    second = [found for found in blocks if found not in first]
    halfway = delete(history, first)
    again = read_history(halfway.request)
    moved = _moved(history, first, halfway.kept)
    by_parts = {found.parts: found for found in deletable(again)}
    # Thinking that has lost its only call is gone already: nothing may keep it alone in its message.
    staying = [found for found in second if all(ref in moved for ref in found.parts)]
    rest = [by_parts[tuple(moved[ref] for ref in found.parts)] for found in staying]
    assert delete(again, rest).request == delete(history, blocks).request


def _moved(history: History, deleted: list[Block], kept: tuple[int, ...]) -> dict[PartRef, PartRef]:
    """Where each part that stays stands after a deletion."""
    gone = {ref for found in deleted for ref in found.parts}
    places: dict[PartRef, PartRef] = {}
    for new_index, index in enumerate(kept):
        staying = [n for n in range(len(history.request.messages[index].parts)) if PartRef(index, n) not in gone]
        places |= {PartRef(index, old): PartRef(new_index, new) for new, old in enumerate(staying)}
    return places


@pytest.mark.parametrize("kept_text", [False, True])
def test_reasoning_that_led_to_a_deleted_call_goes_with_it(kept_text: bool) -> None:
    """Providers refuse an assistant message that is only reasoning, or ends with it."""
    said = [{"type": "text", "text": "I look."}] if kept_text else []
    messages: list[dict[str, Any]] = [{"role": "user", "content": "task"}]
    for number in range(6):
        blocks = [*said, {"type": "thinking", "thinking": f"hm {number}", "signature": "s"}]
        call = {"type": "tool_use", "id": f"t{number}", "name": "ls", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "files"}
        messages += [{"role": "assistant", "content": [*blocks, call]}, {"role": "user", "content": [result]}]
    history = read_history(read_request(messages, protocol="anthropic"))
    exchange = history.steps[0].blocks[1]
    rewritten = delete(history, [exchange]).request.to_wire()
    assert rewritten == (
        [messages[0], {"role": "assistant", "content": said}, *messages[3:]]
        if kept_text
        else [messages[0], *messages[3:]]
    )
    assert violations(read_request(rewritten, protocol="anthropic")) == []


def test_a_block_of_another_request_is_refused() -> None:
    one = read_history(read_request([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]))
    other = read_history(
        read_request(
            [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}, {"role": "assistant", "content": "z"}]
        )
    )
    with pytest.raises(ValueError, match="of another request"):
        delete(one, [other.steps[0].blocks[0]])
