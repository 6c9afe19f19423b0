"""The representation view: under the cap, as long as can be, with Recent2, and never beginning with a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.request.history import History, delete, read_history, removal
from drsr.request.parts import Result
from drsr.request.rendering import Rendering, render
from drsr.request.request import Protocol, Request, read_request
from drsr.request.view import CONTEXT_CAP, TARGET_CAP, View, caps_for, find_view
from tests.messages import SAYS, USER, answers, asks, returns, uses
from tests.strategies import deletable, valid
from tests.tokenizer_kinds import leading, scripted


def slow_view(history: History, rendering: Rendering, lead: int, cap: int) -> View | None:
    """Every suffix in turn, longest first, held against each rule."""
    if len(rendering) <= cap:
        return View(0, 0, lead)
    for index, message in enumerate(history.request.messages):
        start = rendering.message_spans[index].start
        has_recent = all(step.message >= index for step in history.recent)
        begins_with_result = any(isinstance(part, Result) for part in message.parts)
        if lead + len(rendering) - start <= cap and has_recent and not begins_with_result:
            return View(index, start, lead)
    return None


@given(valid, st.floats(0, 1.1), st.booleans())
def test_the_view_equals_a_slow_search(request: Request, share: float, has_lead: bool) -> None:
    tokenizer = leading() if has_lead else scripted()
    history, rendering = read_history(request), render(request, tokenizer)
    cap, lead = int(share * len(rendering)), len(tokenizer.lead)
    view = find_view(history, rendering, lead, cap)
    assert view == slow_view(history, rendering, lead, cap)
    if view is None:
        return
    seen = view.token_ids(rendering.token_ids)
    assert len(seen) <= cap
    behind = len(rendering) - view.start if view.start > lead else len(rendering)
    assert np.array_equal(seen[-behind:], rendering.token_ids[-behind:])
    assert np.array_equal(seen[:lead], tokenizer.lead)


@given(valid, st.floats(0, 1))
def test_the_same_cut_holds_for_the_tokens_of_every_rewrite(request: Request, share: float) -> None:
    history, rendering = read_history(request), render(request, leading())
    view = find_view(history, rendering, 1, int(share * len(rendering)))
    if view is None:
        return
    inside = [block for block in deletable(history) if history.steps[block.step].message >= view.first_message]
    removed = removal(history, inside)
    rewritten = delete(history, inside)
    scratch = render(rewritten.request, leading())
    kept_behind = [
        span for span, index in zip(scratch.message_spans, rewritten.kept, strict=True) if index >= view.first_message
    ]
    start = kept_behind[0].start if kept_behind else len(scratch) - scratch.prompt_length
    expected = (
        np.concatenate([scratch.token_ids[:1], scratch.token_ids[start:]]) if view.start > 1 else scratch.token_ids
    )
    assert np.array_equal(view.token_ids(rendering.without(removed)), expected)


def test_every_cap_gives_what_a_slow_search_gives() -> None:
    for tokenizer in (scripted(), leading()):
        request = read_request(
            {"messages": [USER, SAYS, asks("a"), answers("a"), SAYS, USER], "tools": [{"name": "f"}]}
        )
        history, rendering = read_history(request), render(request, tokenizer)
        lead = len(tokenizer.lead)
        for cap in range(len(rendering) + 1):
            view = find_view(history, rendering, lead, cap)
            assert view == slow_view(history, rendering, lead, cap)
            assert view is None or len(view.token_ids(rendering.token_ids)) <= cap


def views(messages: list[dict[str, Any]], protocol: Protocol = "openai") -> set[int | None]:
    """Where the view begins, over every cap."""
    history = read_history(read_request(messages, protocol=protocol))
    rendering = render(history.request, scripted())
    found = (find_view(history, rendering, 0, cap) for cap in range(len(rendering) + 1))
    return {None if view is None else view.first_message for view in found}


def test_the_prefix_goes_first_and_recent2_never() -> None:
    messages = [{"role": "system", "content": "be good"}, USER, SAYS, asks("a"), answers("a"), USER, SAYS]
    assert views(messages) == {0, 1, 2, 3, None}


def test_a_view_never_begins_with_the_result_of_a_demonstration() -> None:
    demonstration = [{**message, "is_demo": True} for message in (USER, asks("a"), answers("a"))]
    assert views([*demonstration, USER, SAYS, SAYS]) == {0, 1, 3, 4, None}


def test_a_view_never_begins_with_results_and_text() -> None:
    messages = [USER, uses("a"), returns("a", behind="and?"), SAYS, uses("a"), returns("a"), SAYS]
    assert views(messages, "anthropic") == {0, 1, 3, 4, None}


def test_a_request_that_fits_is_seen_whole() -> None:
    request = read_request({"messages": [USER, SAYS, USER], "tools": [{"name": "f"}]})
    rendering = render(request, leading())
    view = find_view(read_history(request), rendering, 1, len(rendering))
    assert view == View(0, 0, 1)
    assert np.array_equal(view.token_ids(rendering.token_ids), rendering.token_ids)


def test_tools_and_system_are_the_first_to_go_and_the_lead_stays() -> None:
    request = read_request({"messages": [USER, SAYS, USER], "tools": [{"name": "f"}], "system": "be good"})
    rendering = render(request, leading())
    view = find_view(read_history(request), rendering, 1, len(rendering) - 1)
    assert view is not None
    assert view.first_message == 0
    bare = render(read_request([USER, SAYS, USER]), leading())
    assert np.array_equal(view.token_ids(rendering.token_ids), bare.token_ids)


@pytest.mark.parametrize(
    ("window", "context", "target"),
    [
        (262_144, CONTEXT_CAP, TARGET_CAP),
        (58_368, 55_296, 3_072),
        (58_367, 55_295, 3_072),
        (8_192, 6_144, 2_048),
        (2_048, 1_536, 512),
    ],
)
def test_the_caps_fit_the_window(window: int, context: int, target: int) -> None:
    assert caps_for(window) == (context, target)
    assert context + target <= window
