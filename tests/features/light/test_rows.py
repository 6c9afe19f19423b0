"""Every text column against its slow twin, and what the rows promise as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState, freeze
from drsr.features.layout import STRUCTURAL
from drsr.features.light import TEXT, as_read, light_features, light_layout
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.request.request import Request
from tests.features.light.busy_requests import busy_states
from tests.features.light.slow_twin import Twin
from tests.features.states import state_of
from tests.features.structural_twin import word_columns
from tests.strategies import eligible


def check(state: DecisionState) -> None:
    read = as_read(state)
    found = light_features(state)
    twin = Twin(read)
    for candidate, row in zip(read.candidates, found.matrix[:, len(STRUCTURAL) :], strict=True):
        expected = twin.columns(candidate.block)
        assert expected.keys() == {column.name for column in TEXT}
        here = {column.name: value for column, value in zip(TEXT, row, strict=True)}
        assert here == pytest.approx(expected, rel=1e-5, abs=1e-6)
    structural = structural_features(read)
    assert np.array_equal(found.matrix[:, : len(STRUCTURAL)], structural.astype(np.float32))
    names = [name for name, _ in STRUCTURAL]
    for row, counted in zip(structural, word_columns(read), strict=True):
        assert {name: row[names.index(name)] for name in counted} == counted  # to the bit


@given(state=busy_states)
@settings(max_examples=120, deadline=None)
def test_every_column_of_requests_that_repeat_themselves(state: DecisionState) -> None:
    check(state)


@given(request=eligible)
@settings(max_examples=60, deadline=None)
def test_every_column_of_requests_of_every_shape(request: Request) -> None:
    state = freeze(request, ScriptedTokenizer(), 10**6)
    if isinstance(state, DecisionState):
        check(state)


@given(state=busy_states)
@settings(max_examples=20, deadline=None)
def test_features_name_their_layout_and_their_prefix(state: DecisionState) -> None:
    found = light_features(state)
    assert found.layout_hash == light_layout().hash
    assert found.prefix_hash == prefix_hash(state)
    assert found.matrix.shape == (len(state.candidates), len(light_layout().columns))
    assert np.isfinite(found.matrix).all()
    assert np.array_equal(found.matrix, light_features(state).matrix)


def test_the_order_in_which_arguments_were_written_changes_nothing() -> None:
    """They are rendered in the order of their keys, so the same tokens give the same features."""
    first = {"path": "/a/b.txt", "limit": 10, "deep": {"y": "seven words in a row here now", "x": "u_1"}}
    other = {"deep": {"x": "u_1", "y": "seven words in a row here now"}, "limit": 10, "path": "/a/b.txt"}
    one, two = (state_of(_run(arguments), ScriptedTokenizer(), 10**6) for arguments in (first, other))
    assert np.array_equal(one.rendering.token_ids, two.rendering.token_ids)
    assert np.array_equal(light_features(one).matrix, light_features(two).matrix)


def _run(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "seven words in a row"}]
    for number in range(6):
        use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {**arguments, "page": number}}
        messages.append({"role": "assistant", "content": [use]})
        found = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"page {number} of /a/b.txt"}
        messages.append({"role": "user", "content": [found]})
    return messages
