"""Spans in the view, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState
from drsr.errors import EmptySpan, FeatureError, MisalignedSpan, OutsideView
from drsr.features.spans import Spans, block_spans, candidate_spans, prefix_hash
from drsr.request.contracts import TokenIds
from tests.features.states import run_messages, state_of


class LeadingTokenizer(ScriptedTokenizer):
    """Begins every context with two tokens, as a tokenizer with a beginning-of-sequence token does."""

    @property
    def lead(self) -> TokenIds:
        return np.array([1, 2], dtype=np.int32)


@pytest.fixture
def state() -> DecisionState:
    return state_of(run_messages(8), ScriptedTokenizer())


def with_spans(state: DecisionState, spans: Spans) -> DecisionState:
    """The same state, but its first candidate claims other tokens."""
    changed = state.candidates[0]._replace(token_spans=spans)
    return state._replace(candidates=(changed, *state.candidates[1:]))


@pytest.mark.parametrize("tokenizer", [ScriptedTokenizer(), LeadingTokenizer()])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_view_shows_the_same_tokens(tokenizer: ScriptedTokenizer, steps: int) -> None:
    """Whatever part of the request the view leaves out."""
    messages = run_messages(9)
    whole = state_of(messages, tokenizer)
    left_out = whole.rendering.message_spans[2 + 2 * steps].start - len(tokenizer.lead)
    state = state_of(messages, tokenizer, len(whole.rendering) - left_out)
    view = state.view.token_ids(state.rendering.token_ids)
    assert len(view) == len(whole.rendering) - left_out
    for candidate, spans in zip(state.candidates, candidate_spans(state), strict=True):
        there = [view[span.start : span.stop] for span in spans]
        full = [state.rendering.token_ids[span.start : span.stop] for span in candidate.token_spans]
        assert all(np.array_equal(one, other) for one, other in zip(there, full, strict=True))
    assert set(candidate_spans(state)) <= set(block_spans(state))
    assert len(block_spans(state)) == 2 * (9 - steps)


@pytest.mark.parametrize("spans", [(), (range(0),), (range(10, 12), range(14, 14))])
def test_empty_spans(state: DecisionState, spans: Spans) -> None:
    with pytest.raises(EmptySpan, match=r"Block \d\.\d: it has no tokens"):
        candidate_spans(with_spans(state, spans))


@pytest.mark.parametrize(
    "spans",
    [
        (range(20, 30), range(10, 15)),
        (range(10, 20), range(15, 25)),
        (range(10, 10_000),),
        (range(-5, 10),),
        (range(10, 20, 2),),
    ],
)
def test_spans_that_are_no_ranges_of_the_prefix(state: DecisionState, spans: Spans) -> None:
    with pytest.raises(MisalignedSpan, match="are not ascending ranges of the prefix"):
        candidate_spans(with_spans(state, spans))


def test_spans_of_another_block(state: DecisionState) -> None:
    with pytest.raises(MisalignedSpan, match="its token spans are"):
        candidate_spans(with_spans(state, state.candidates[1].token_spans))


def test_the_pre_action_position_belongs_to_no_block(state: DecisionState) -> None:
    end = len(state.rendering)
    with pytest.raises(MisalignedSpan):
        candidate_spans(with_spans(state, (range(end - 3, end),)))


def test_a_candidate_outside_of_the_view(state: DecisionState) -> None:
    behind = state.candidates[0].token_spans[-1].stop
    with pytest.raises(OutsideView, match="the view at token") as caught:
        candidate_spans(state._replace(view=state.view._replace(start=behind)))
    assert isinstance(caught.value, FeatureError)


def test_the_prefix_hash_changes_with_every_token_and_with_the_view(state: DecisionState) -> None:
    token_ids = state.rendering.token_ids.copy()
    token_ids[5] += 1
    rendering = type(state.rendering)(
        token_ids, state.rendering.message_spans, state.rendering.part_spans, state.rendering.prompt_length
    )
    hashes = {
        prefix_hash(state),
        prefix_hash(state._replace(rendering=rendering)),
        prefix_hash(state._replace(view=state.view._replace(start=7))),
    }
    assert len(hashes) == 3
    assert prefix_hash(state) == prefix_hash(state_of(run_messages(8), ScriptedTokenizer()))
