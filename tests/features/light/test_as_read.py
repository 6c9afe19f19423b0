"""A state as its reader reads it: the request that begins with the view."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState, freeze
from drsr.features.light import as_read, light_features
from drsr.request.request import read_request
from tests.features.light.busy_requests import cut_states
from tests.features.states import run_messages, state_of


@given(state=cut_states)
@settings(max_examples=60, deadline=None)
def test_the_view_is_read_as_if_it_were_the_whole_request(state: DecisionState) -> None:
    """Cutting the messages off by hand and freezing what is left gives the same state, and so the same features."""
    assert state.view.start > 0
    messages = state.history.request.to_wire()[state.view.first_message :]
    cut = freeze(read_request(messages), ScriptedTokenizer(), 10**6)
    assert isinstance(cut, DecisionState)
    found = as_read(state)
    assert found.history.steps == cut.history.steps
    assert found.history.prefix_length == cut.history.prefix_length
    assert found.history.substance == cut.history.substance
    assert np.array_equal(found.rendering.token_ids, cut.rendering.token_ids)
    assert found.rendering.part_spans == cut.rendering.part_spans
    assert found.rendering.message_spans == cut.rendering.message_spans
    assert found.candidates == cut.candidates
    assert found.view == cut.view
    assert np.array_equal(light_features(state).matrix, light_features(cut).matrix)


def test_a_whole_view_is_left_as_it_is() -> None:
    state = state_of(run_messages(7), ScriptedTokenizer(), 10**6)
    assert as_read(state) is state


def test_what_lies_before_the_view_changes_no_column() -> None:
    """The labelling model did not read it either."""
    messages = run_messages(12, words=12)
    state = state_of(messages, ScriptedTokenizer(), 500)
    assert state.view.first_message > 2
    other = [{**messages[0], "content": "Something else entirely, order_17 W2301"}, *messages[1:]]
    changed = state_of(other, ScriptedTokenizer(), 500)
    assert np.array_equal(light_features(state).matrix, light_features(changed).matrix)
    assert light_features(state).prefix_hash != light_features(changed).prefix_hash
