"""The deletion sets of a decision: which there are, what each saves, and whether its rewrite is valid."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from drsr.decide.candidates import Candidate, DecisionState, freeze
from drsr.decide.deletion_sets import deletion_sets
from drsr.request.history import delete, removal, rewrite
from drsr.request.parts import Message, Opaque, Text, says_something
from drsr.request.protocol import violations
from drsr.request.rendering import render
from drsr.request.request import Request, read_request
from drsr.request.view import CONTEXT_CAP
from tests.messages import SAYS, USER, answers, asks
from tests.strategies import eligible
from tests.tokenizer_kinds import leading, scripted


def state_of(steps: int) -> DecisionState:
    messages: list[dict[str, Any]] = [USER]
    for number in range(steps):
        messages += [asks("a", text=f"step {number}"), answers("a", "word " * number)]
    state = freeze(read_request(messages), scripted(), CONTEXT_CAP)
    assert isinstance(state, DecisionState)
    return state


@pytest.mark.parametrize(
    ("steps", "max_cardinality", "count"),
    [(5, 3, 7), (5, 4, 7), (5, 2, 6), (5, 1, 3), (5, 0, 0), (6, 4, 15), (6, 3, 14), (6, 2, 10), (6, 1, 4)],
)
def test_all_non_empty_subsets_up_to_the_largest_size(steps: int, max_cardinality: int, count: int) -> None:
    state = state_of(steps)
    sets = deletion_sets(state, max_cardinality)
    assert len(sets) == count
    numbers = range(len(state.candidates))
    expected = [chosen for size in range(1, max_cardinality + 1) for chosen in combinations(numbers, size)]
    assert [found.members for found in sets] == expected


def test_the_mask_is_the_identity_of_a_set() -> None:
    sets = deletion_sets(state_of(6), 4)
    assert sorted(found.mask for found in sets) == list(range(1, 16))
    for found in sets:
        assert found.members == tuple(bit for bit in range(4) if found.mask >> bit & 1)


@given(eligible)
@settings(max_examples=40)
def test_savings_and_verdicts_equal_those_of_a_slow_twin(request: Request) -> None:
    state = freeze(request, leading(), CONTEXT_CAP)
    assume(isinstance(state, DecisionState))
    assert isinstance(state, DecisionState)
    whole = render(request, leading())
    blocks = [candidate.block for candidate in state.candidates]
    for found in deletion_sets(state, 4):
        twin = delete(state.history, [blocks[member] for member in found.members]).request
        assert rewrite(request, found.removal).request == twin
        scratch = render(read_request(twin.to_wire(), protocol=twin.protocol), leading())
        assert found.direct_saving == len(whole) - len(scratch) > 0
        assert found.violations == ()
        assert len(violations(twin)) == len(state.violations) == 0
        assert np.array_equal(state.rendering.without(found.removal), scratch.token_ids)


@given(eligible)
@settings(max_examples=40)
def test_prefix_recent2_and_the_user_are_the_same_in_every_rewrite(request: Request) -> None:
    state = freeze(request, scripted(), CONTEXT_CAP)
    assume(isinstance(state, DecisionState))
    assert isinstance(state, DecisionState)
    protected_from = state.history.recent[0].message
    for found in deletion_sets(state, 4):
        rewritten = rewrite(request, found.removal)
        kept = dict(zip(rewritten.kept, rewritten.request.messages, strict=True))
        for index, message in enumerate(request.messages):
            if index < state.history.prefix_length or index >= protected_from:
                assert kept[index] == message
            elif message.role == "user":
                assert spoken(kept.get(index)) == spoken(message)


def spoken(message: Message | None) -> list[str]:
    """What the user says besides the results that the message carries."""
    parts = message.parts if message else ()
    return [
        part.text if isinstance(part, Text) else part.kind
        for part in parts
        if isinstance(part, Text | Opaque) and says_something(part)
    ]


def test_a_set_saves_more_than_the_sum_where_a_message_vanishes() -> None:
    """Two candidates in one message: only together do they take its frame along."""
    messages = [USER, asks("a", "b"), answers("a", "x"), answers("b", "y"), *[SAYS] * 5]
    state = freeze(read_request(messages), scripted(), CONTEXT_CAP)
    assert isinstance(state, DecisionState)
    exchanges = state.history.steps[0].blocks
    both = [Candidate(block, state.rendering.direct_saving(removal(state.history, [block])), ()) for block in exchanges]
    one, other, together = deletion_sets(state._replace(candidates=tuple(both)), 2)
    assert together.direct_saving > one.direct_saving + other.direct_saving


def test_a_rewrite_that_breaks_a_rule_says_which() -> None:
    """No Block of an eligible request gives such a rewrite, so the state is made by hand: a call without its result."""
    state = state_of(6)
    call, _ = state.candidates[0].block.parts
    first, *others = state.history.steps
    broken = replace(first.blocks[1], parts=(call,))
    history = replace(state.history, steps=(replace(first, blocks=(first.blocks[0], broken)), *others))
    (found,) = deletion_sets(state._replace(history=history, candidates=(Candidate(broken, 1, ()),)), 1)
    assert [str(violation) for violation in found.violations] == ["result_without_call at message 2 (a)"]
