"""Freezing: three or four candidates by a rule that knows no outcome, or the reason why there are none."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.decide.candidates import (
    BINS,
    DecisionState,
    Ineligible,
    IneligibleReason,
    bin_edges,
    choose_candidates,
    freeze,
    freeze_rendered,
)
from drsr.errors import AlignmentError
from drsr.request.contracts import TokenIds
from drsr.request.history import Block, delete, read_history
from drsr.request.protocol import ViolationKind, violations
from drsr.request.rendering import render
from drsr.request.request import Request, read_request
from drsr.request.view import CONTEXT_CAP, View, find_view
from tests.messages import SAYS, USER, answers, asks, returns, uses
from tests.strategies import aborted, arbitrary, eligible, valid, valid_requests
from tests.tokenizer_kinds import leading, scripted


def exchange(call_id: str = "a", words: int = 1) -> list[dict[str, Any]]:
    return [asks(call_id), answers(call_id, "word " * words)]


def frozen(messages: Any, cap: int = CONTEXT_CAP, **options: Any) -> DecisionState:
    state = freeze(read_request(messages), scripted(), cap, **options)
    assert isinstance(state, DecisionState), state
    return state


def names(state: DecisionState) -> list[str]:
    return [candidate.block.name for candidate in state.candidates]


# Against a slow and obvious twin


def slow_candidates(request: Request, cap: int) -> list[tuple[str, int]]:
    """The rule of the design page, word by word: every saving measured by rendering the rewrite from scratch."""
    history = read_history(request)
    rendering = render(request, leading())
    view = find_view(history, rendering, 1, cap)
    if view is None:
        return []
    complete = [step for step in history.steps if step.complete]
    older = [step for step in complete[:-2] if step.message >= view.first_message]
    # Steps of which nothing may be deleted are not counted into bins.
    older = [step for step in older if any(not block.opaque for block in step.blocks)]
    if not older:
        return []
    chosen = []
    for numbers in np.array_split(np.arange(len(older)), min(4, len(older))):
        best: tuple[str, int] | None = None
        for block in [block for number in numbers for block in older[number].blocks if not block.opaque]:
            rewrite = delete(history, [block]).request
            saving = len(rendering) - len(render(rewrite, leading()))
            if saving > (best[1] if best else 0) and len(violations(rewrite)) == len(violations(request)):
                best = (block.name, saving)
        if best:
            chosen.append(best)
    return chosen


@given(st.one_of(valid, eligible, aborted), st.floats(0.2, 1.2))
def test_candidates_equal_those_of_a_slow_twin(request: Request, share: float) -> None:
    history, rendering = read_history(request), render(request, leading())
    cap = int(share * len(rendering))
    view = find_view(history, rendering, 1, cap)
    if view is None:
        return
    found = choose_candidates(history, rendering, view, violations(request))
    assert [(candidate.block.name, candidate.direct_saving) for candidate in found] == slow_candidates(request, cap)


@given(st.one_of(valid, eligible), st.floats(0.2, 1.2))
def test_an_outcome_is_three_or_four_candidates_or_a_reason(request: Request, share: float) -> None:
    rendering = render(request, leading())
    cap = int(share * len(rendering))
    state = freeze(request, leading(), cap)
    if isinstance(state, Ineligible):
        view = find_view(read_history(request), rendering, 1, cap)
        if state.reason is IneligibleReason.RECENT_EXCEEDS_VIEW:
            assert view is None
        else:
            assert state.reason is IneligibleReason.TOO_FEW_CANDIDATES
            assert len(slow_candidates(request, cap)) < 3
        return
    assert 3 <= len(state.candidates) <= 4
    protected = {step.index for step in state.history.recent}
    steps = [candidate.block.step for candidate in state.candidates]
    assert steps == sorted(set(steps))
    assert not protected & set(steps)
    for candidate in state.candidates:
        assert state.history.steps[candidate.block.step].message >= state.view.first_message
        assert candidate.token_spans == rendering.token_spans(candidate.block)
        assert all(span.start >= state.view.start for span in candidate.token_spans)
        assert 0 < sum(len(span) for span in candidate.token_spans) <= candidate.direct_saving


@given(st.one_of(aborted, arbitrary))
def test_a_request_that_breaks_a_rule_is_not_eligible_unless_it_only_lacks_results(request: Request) -> None:
    state = freeze(request, scripted(), CONTEXT_CAP)
    invalid = isinstance(state, Ineligible) and state.reason is IneligibleReason.INVALID_PROTOCOL
    kinds = {violation.kind for violation in violations(request)}
    assert invalid == bool(kinds - {ViolationKind.CALL_WITHOUT_RESULT})
    if isinstance(state, DecisionState):
        assert list(state.violations) == violations(request)


# Freezing depends on the request alone


def comparable(state: DecisionState | Ineligible) -> Any:
    if isinstance(state, Ineligible):
        return state
    return state.candidates, state.view, state.rendering.token_ids.tolist()


@given(valid_requests("openai"))
@settings(max_examples=40)
def test_freezing_twice_gives_the_same_and_touches_nothing(body: Any) -> None:
    before = copy.deepcopy(body)
    request = read_request(body, protocol="openai")
    once, twice = freeze(request, scripted(), 200), freeze(read_request(before, protocol="openai"), scripted(), 200)
    assert comparable(once) == comparable(twice)
    assert body == before
    assert request == read_request(before, protocol="openai")


@given(valid)
@settings(max_examples=60)
def test_what_comes_later_does_not_matter(request: Request) -> None:
    """Frozen from a prefix of the run, and from the whole run's rendering cut at the same place."""
    whole = render(request, scripted())
    for index, message in enumerate(request.messages):
        if message.role != "assistant":
            continue
        prefix = request.with_messages(request.messages[:index])
        if not violations(prefix):
            cut = freeze_rendered(read_history(prefix), whole.before(index), [], 0, 300)
            assert comparable(cut) == comparable(freeze(prefix, scripted(), 300))


# Case by case


def test_five_steps_give_three_candidates_and_six_give_four() -> None:
    assert names(frozen([USER, *exchange() * 5])) == ["0.1", "1.1", "2.1"]
    assert names(frozen([USER, *exchange() * 6])) == ["0.1", "1.1", "2.1", "3.1"]


def test_of_each_bin_the_longest_and_the_earliest_of_equals() -> None:
    steps = [exchange(words=words) for words in (1, 5, 5, 3, 9, 2, 4, 4, 99, 99)]
    assert names(frozen([USER, *sum(steps, [])])) == ["1.1", "2.1", "4.1", "6.1"]


def test_within_a_step_the_longest_block_and_the_first_of_equals() -> None:
    long_text = [asks("a", text="word " * 30), answers("a", "x")]
    twins = [asks("a", "b"), answers("a", "x"), answers("b", "x")]
    later = [asks("a", "b"), answers("a", "x"), answers("b", "x y z")]
    assert names(frozen([USER, *long_text, *twins, *later, SAYS, SAYS])) == ["0.0", "1.1", "2.2"]


def test_length_is_what_the_rewrite_saves_not_what_the_block_says() -> None:
    """An exchange that is all of its message takes the message's frame along."""
    state, alone = [asks("a", text="x"), answers("a", "y y y")], [asks("a"), answers("a", "y y")]
    chosen = frozen([USER, *state, *alone, SAYS, SAYS, SAYS, SAYS, SAYS, SAYS, SAYS, SAYS, SAYS])
    assert chosen.candidates[0].block.name == "1.1"


def test_four_bins_of_near_equal_step_count() -> None:
    for count in range(30):
        edges = bin_edges(count, BINS)
        sizes = [upper - lower for lower, upper in edges]
        assert len(edges) == min(count, 4)
        assert sum(sizes) == count
        assert [index for lower, upper in edges for index in range(lower, upper)] == list(range(count))
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("messages", "reason", "detail"),
    [
        ([], "too_few_candidates", "0 of at least 3: 0 Steps, 0 older"),
        ([USER], "too_few_candidates", "0 of at least 3"),
        ([USER, *exchange() * 4], "too_few_candidates", "2 of at least 3: 4 Steps, 2 older than the latest two"),
        ([USER, answers("x"), *exchange() * 6], "invalid_protocol", "^result_without_call at message 1$"),
        ([USER, asks("b"), answers("y"), answers("x"), SAYS], "invalid_protocol", "at message 2 and 1 more$"),
        ([USER, *exchange() * 5, {"role": "assistant", "content": ""}], "invalid_protocol", "empty_assistant_message"),
        ([USER, *exchange() * 5, *exchange(words=500)], "recent_exceeds_view", "longer than the context cap of 400"),
    ],
)
def test_why_a_request_is_not_eligible(messages: list[dict[str, Any]], reason: str, detail: str) -> None:
    outcome = freeze(read_request(messages), scripted(), 400)
    assert isinstance(outcome, Ineligible)
    assert outcome.reason == reason
    assert str(outcome).startswith(f"{reason}: ")
    assert re.search(detail, outcome.detail)


def test_a_tokenizer_that_cannot_spell_a_content_makes_the_request_ineligible() -> None:
    class Refusing:
        identity = "refusing"
        lead = np.zeros(0, dtype=np.int32)

        def encode_frame(self, text: str) -> TokenIds:
            return np.zeros(1, dtype=np.int32)

        def encode_contents(self, texts: Any) -> list[TokenIds]:
            raise AlignmentError("a special token would appear", where="content 0")

    outcome = freeze(read_request([USER, *exchange() * 6]), Refusing(), CONTEXT_CAP)
    assert outcome == Ineligible(IneligibleReason.ALIGNMENT_FAILURE, "content 0: a special token would appear")


def test_opaque_pinned_and_incomplete_are_no_candidates() -> None:
    image = [asks("a"), answers("a", [{"type": "image_url", "image_url": {}}])]
    steps = [image, exchange("b", words=50), exchange("c"), exchange("d"), exchange("e"), [SAYS], [SAYS]]
    messages = [USER, *sum(steps, [])]
    assert names(frozen(messages)) == ["1.1", "2.1", "3.1", "4.1"]

    def protect(block: Block, request: Request) -> bool:
        return block.step == 1

    assert names(frozen(messages, protect=protect)) == ["2.1", "3.1", "4.1"]
    assert names(frozen([*messages, asks("z")])) == ["1.1", "2.1", "3.1", "4.1"]


def test_a_call_that_was_aborted_long_ago_does_not_make_the_request_ineligible() -> None:
    aborted = [asks("a", text="word " * 99)]  # with the id of every other call
    state = frozen([USER, *exchange(), *aborted, *exchange() * 4, SAYS])
    assert [str(violation) for violation in state.violations] == ["call_without_result at message 3 (a)"]
    assert names(state) == ["0.1", "2.1", "3.1", "4.1"]
    for candidate in state.candidates:
        assert len(violations(delete(state.history, [candidate.block]).request)) == 1


def test_steps_before_the_view_are_no_candidates() -> None:
    messages = [USER, *exchange(words=300), *sum([exchange()] * 7, [])]
    assert names(frozen(messages))[0] == "0.1"
    state = frozen(messages, cap=300)
    assert state.view == View(3, state.rendering.message_spans[3].start, 0)
    assert names(state) == ["1.1", "3.1", "4.1", "5.1"]
    for candidate in state.candidates:  # the saving is that on the full request, whatever the view
        rewritten = render(delete(state.history, [candidate.block]).request, scripted())
        assert candidate.direct_saving == len(state.rendering) - len(rewritten)


def test_an_anthropic_request_is_frozen_alike() -> None:
    messages = [USER, *[uses("a"), returns("a")] * 6]
    assert names(frozen(messages)) == ["0.1", "1.1", "2.1", "3.1"]
