"""Violations that a removal would add: found in the Steps it touches, against a look at the whole rewrite."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.request.history import Block, History, Removal, read_history, removal, rewrite
from drsr.request.protocol import Violation, new_violations, violations
from drsr.request.removals import Removals
from drsr.request.request import Request, read_request
from tests.strategies import aborted, arbitrary, deletions, eligible, valid


def slow(request: Request, removed: Removal) -> tuple[Violation, ...]:
    rewritten = rewrite(request, removed)
    return tuple(new_violations(rewritten.request, rewritten.kept, violations(request)))


@given(case=deletions(st.one_of(valid, eligible, aborted, arbitrary)))
@settings(max_examples=100)
def test_a_deletion_adds_what_the_whole_rewrite_says(case: tuple[History, list[Block]]) -> None:
    history, blocks = case
    removed = removal(history, blocks)
    judge = Removals(history.request, violations(history.request))
    assert judge.new_violations(removed) == slow(history.request, removed)


@given(request=st.one_of(eligible, aborted), data=st.data())
@settings(max_examples=100)
def test_so_does_a_removal_that_no_block_asks_for(request: Request, data: st.DataObject) -> None:
    """Whole messages and single parts at random: calls without results and results without calls among them."""
    judge = Removals(request, violations(request))
    indexes = st.integers(0, len(request.messages) - 1)
    vanished = frozenset(data.draw(st.sets(indexes, max_size=3)))
    parts = {}
    for index in data.draw(st.sets(indexes, max_size=2)) - vanished:
        message = request.messages[index]
        if message.role == "assistant" and len(message.parts) > 1:
            parts[index] = {data.draw(st.integers(0, len(message.parts) - 1))}
    removed = Removal(vanished, parts)
    assert judge.new_violations(removed) == slow(request, removed)


def test_a_plain_step_is_judged_without_the_rest() -> None:
    """Seen by what is shortened: no message of another Step is read again."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(6):
        calls = [
            {"id": f"{number}{letter}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for letter in "ab"
        ]
        messages.append({"role": "assistant", "content": "well", "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
    history = read_history(read_request(messages))
    judge = Removals(history.request, violations(history.request))
    removed = removal(history, [history.steps[1].blocks[1]])
    assert judge.new_violations(removed) == ()
    assert [index for index, _ in judge._shortened] == [history.steps[1].message]
